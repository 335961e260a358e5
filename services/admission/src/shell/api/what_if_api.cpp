// WhatIf: copies the rows, and runs the decision twice on a thread of its own.
#include "qm/admission/api/what_if_api.hpp"

#include "qm/admission/api/copied_rows.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/config/workload_kinds.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

namespace pb = quartermaster::v1;

Result<ObjectDeleted> gone_of(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const auto slash = std::min(text.find('/', at), text.size());
    parts.push_back(text.substr(at, slash - at));
    at = slash + 1;
  }
  static const std::vector<std::string> kKinds{
      "ClusterQueue", "Cohort", "ResourceFlavor", "WorkloadPriorityClass", "PriorityClass",
      "LocalQueue",   "Job",    "Workload"};
  const bool known = std::ranges::find(kKinds, parts.front()) != kKinds.end();
  const bool in_namespace = parts.front() == "LocalQueue" || parts.front() == "Job" || parts.front() == "Workload";
  const bool named = parts.size() == (in_namespace ? 3U : 2U) && !parts.back().empty();
  if (!known || !named) {
    return fail(
        {Code::kInvalid, fmt::format("{} is not understood", text), "deleted",
         "write ClusterQueue/NAME, Cohort/NAME, ResourceFlavor/NAME, WorkloadPriorityClass/NAME, PriorityClass/NAME, "
         "LocalQueue/NAMESPACE/NAME, Job/NAMESPACE/NAME or Workload/NAMESPACE/NAME"});
  }
  return ObjectDeleted{parts.front(), Namespace(parts.size() == 3 ? parts[1] : ""), parts.back()};
}

/// Whether the caller sees a workload of that name. A workload that the caller may not see is treated as absent.
bool sees(const Tables& rows, const ObjectDeleted& named, const rpc::Caller& caller) {
  return std::ranges::any_of(rows.workloads, [&](const auto& row) {
    const auto& spec = row.second.spec;
    return spec.ns == named.ns && spec.name == named.name && caller.sees(spec.ns.value(), spec.team.value());
  });
}

}  // namespace

Result<HypotheticalChange> supposed_from(const pb::WhatIfRequest& request) {
  HypotheticalChange out;
  for (const auto& text : request.deleted()) {
    QM_ASSIGN(auto gone, gone_of(text));
    out.gone.push_back(std::move(gone));
  }
  if (request.manifest().empty()) {
    if (!out.gone.empty()) return out;
    return fail(
        {Code::kInvalid, "the request has neither a manifest nor deleted objects", "manifest", "set one of the two"});
  }
  QM_ASSIGN(out.objects, objects_from_manifest(request.manifest(), request.source(), WorkloadObjects::kLeftOut));
  const auto loaded = config::load_text(request.manifest(), request.source());
  for (const auto& object : loaded.objects) {
    const auto& doc = object.document;
    if (doc.kind != "Job") {
      if (config::workload_kind(doc.api_version, doc.kind) != nullptr) {
        out.objects.warnings.push_back(fmt::format("{}:{}: {}/{} is ignored: what-if reads configuration and Jobs",
                                                   doc.file, doc.line, doc.kind, doc.name));
      }
      continue;
    }
    const auto ns = doc.ns.empty() ? std::string("default") : doc.ns;
    Json job = doc.content;
    job.set("metadata").set("namespace", ns);
    job.set("metadata").set("uid", fmt::format("supposed/{}/{}", ns, doc.name));
    QM_ASSIGN(auto seen, parse_job(job));
    seen.suspended = true;
    out.jobs.push_back(std::move(seen));
  }
  return out;
}

Status answer_what_if(service::Host& host, const pb::WhatIfRequest& request, const rpc::Caller& caller, Instant now,
                      pb::WhatIfResponse& response) {
  QM_ASSIGN(const auto supposed, supposed_from(request));
  const auto taken = copied(RowsCopy(), host);
  for (const auto& gone : supposed.gone) {
    if ((gone.kind == "Job" || gone.kind == "Workload") && !sees(taken.rows, gone, caller)) {
      return fail({Code::kNotFound, fmt::format("workload {}/{} is not known, or has finished", gone.ns, gone.name),
                   "deleted", "list the workloads of the namespace"});
    }
  }
  QM_ASSIGN(const auto found, what_if(taken.rows, taken.options, supposed, now));
  response.set_looked_at(static_cast<std::int64_t>(taken.rows.workloads.size()));
  for (const auto& warning : supposed.objects.warnings) response.add_warnings(warning);
  for (const auto& one : found) {
    const auto& spec = one.workload.spec;
    if (!caller.sees(spec.ns.value(), spec.team.value())) {
      response.set_hidden(response.hidden() + 1);
      continue;
    }
    auto& out = *response.add_consequences();
    out.set_what(std::string(name_of(one.what)));
    out.set_namespace_(spec.ns.value());
    out.set_name(spec.name);
    out.set_queue(one.workload.cluster_queue.value());
    out.set_before(one.before);
    out.set_after(one.after);
    out.set_why(one.why);
  }
  return {};
}

}  // namespace qm::admission
