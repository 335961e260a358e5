#include "objects_api.hpp"

#include "qm/rpc/worker.hpp"

namespace qm::admission {
namespace {

constexpr std::int32_t kDefaultPage = 100, kLargestPage = 1000;

}  // namespace

std::set<QueueName> open_queues(const Engine& engine, const rpc::Caller& caller) {
  std::set<QueueName> open;
  if (caller.everything) return open;
  for (const auto& [key, queue] : engine.tables().local_queues) {
    if (caller.sees(queue.ns.value())) open.insert(queue.cluster_queue);
  }
  return open;
}

// A page ends with "Kind/namespace/name": kinds come in the order of the alphabet, as their objects do.
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
  for (const auto& [key, row] : tables.priority_classes) {
    if (row.workload_only) take("WorkloadPriorityClass", {}, row.name, row.source);
  }
  return {};
}

}  // namespace qm::admission
