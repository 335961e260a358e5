#include "api/objects_api.hpp"

#include "qm/admission/queries/budget_view.hpp"
#include "qm/rpc/worker.hpp"

namespace qm::admission {

namespace pb = quartermaster::v1;

std::set<QueueName> open_queues(const Engine& engine, const rpc::Caller& caller) {
  std::set<QueueName> open;
  if (caller.everything) return open;
  for (const auto& [key, queue] : engine.tables().local_queues) {
    if (caller.sees(queue.ns.value())) open.insert(queue.cluster_queue);
  }
  return open;
}

// A page token is "Kind/namespace/name": kinds are in alphabetical order, and so are the objects of each kind.
Status list_objects(const Engine& engine, const quartermaster::v1::ListObjectsRequest& request,
                    const rpc::Caller& caller, quartermaster::v1::ListObjectsResponse& out) {
  QM_ASSIGN(const auto most, rpc::page_size(request.page_size(), kDefaultPage, kLargestPage));
  const auto open = open_queues(engine, caller);
  const auto& tables = engine.tables();
  std::string last;
  bool full = false;
  const auto take = [&](const char* kind, const Namespace& ns, const std::string& name, const std::string& manifest) {
    if (full || manifest.empty()) return;
    if (!request.kind().empty() && request.kind() != kind) return;
    if (!request.name().empty() && request.name() != name) return;
    std::string at = fmt::format("{}/{}/{}", kind, ns, name);
    if (at <= request.page_token()) return;
    if (static_cast<std::size_t>(out.objects_size()) == most) {
      full = true;
      return out.set_next_page_token(last);
    }
    auto& object = *out.add_objects();
    object.set_kind(kind);
    object.set_namespace_(ns.value());
    object.set_name(name);
    object.set_manifest(manifest);
    last = std::move(at);
  };
  for (const auto& [name, row] : tables.admission_checks) take("AdmissionCheck", {}, name, row.source);
  const auto queues = [&](const char* kind, bool volcano) {
    for (const auto& [name, row] : tables.cluster_queues) {
      if (row.volcano.has_value() != volcano || !(caller.everything || open.contains(name))) continue;
      take(kind, {}, name.value(), row.source);
    }
  };
  queues("ClusterQueue", false);
  for (const auto& [name, row] : tables.cohorts) take("Cohort", {}, name, row.source);
  for (const auto& [key, row] : tables.local_queues) {
    if (caller.sees(row.ns.value())) take("LocalQueue", row.ns, row.name, row.source);
  }
  for (const auto& [key, row] : tables.priority_classes) {
    if (!row.workload_only) take("PriorityClass", {}, row.name, row.source);
  }
  queues("Queue", true);
  for (const auto& [name, row] : tables.flavors) take("ResourceFlavor", {}, name.value(), row.source);
  for (const auto& [name, row] : tables.topologies) take("Topology", {}, name, row.source);
  for (const auto& [key, row] : tables.priority_classes) {
    if (row.workload_only) take("WorkloadPriorityClass", {}, row.name, row.source);
  }
  return {};
}

Status list_budgets(const Engine& engine, const pb::ListBudgetsRequest& request, const rpc::Caller& caller, Instant now,
                    pb::ListBudgetsResponse& out) {
  QM_ASSIGN(const auto most, rpc::page_size(request.page_size(), kDefaultPage, kLargestPage));
  const auto open = open_queues(engine, caller);
  const auto& rows = engine.tables().budgets.rows();
  for (auto it = rows.upper_bound(request.page_token()); it != rows.end(); ++it) {
    const auto& terms = it->second.terms;
    const bool theirs = !terms.cluster_queue.empty() ? open.contains(terms.cluster_queue)
                                                     : caller.sees(terms.ns.value(), terms.team.value());
    if (!caller.everything && !theirs) continue;
    if (static_cast<std::size_t>(out.budgets_size()) == most) {
      out.set_next_page_token(out.budgets(out.budgets_size() - 1).name());
      return {};
    }
    const auto v = view_of(it->second, now);
    auto& b = *out.add_budgets();
    b.set_name(it->first);
    b.set_cluster_queue(terms.cluster_queue.value());
    b.set_namespace_(terms.ns.value());
    b.set_team(terms.team.value());
    b.set_unit(terms.dollars ? pb::BUDGET_NANO_USD : pb::BUDGET_GPU_MILLISECONDS);
    b.set_soft(terms.soft);
    if (v.period) {
      b.set_from_us(micros(v.period->from));
      b.set_to_us(micros(v.period->to));
    }
    if (v.next) b.set_next_us(micros(*v.next));
    b.set_granted(v.granted);
    b.set_spent(v.spent);
    b.set_held(v.held);
    b.set_free(v.free);
    b.set_owed(v.owed);
    b.set_projected(v.projected);
  }
  return {};
}

}  // namespace qm::admission
