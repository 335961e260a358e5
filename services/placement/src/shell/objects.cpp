// Converts watched Kubernetes objects to facts. An object that cannot be parsed is skipped and
// logged: one malformed object must not block the view of all others.
#include "shell/objects.hpp"

#include "qm/base/log.hpp"
#include "qm/base/parse.hpp"
#include "qm/config/needs.hpp"
#include "qm/kube_objects/rules.hpp"
#include "qm/kube_rules/text.hpp"
#include "qm/model/launched_for.hpp"
#include "qm/model/quantity.hpp"
#include "qm/placement/shell.hpp"
#include "shell/solo.hpp"

#include <algorithm>
#include <array>

namespace qm::placement {
namespace {

Quantity quantity_of(const Json& value, std::string_view node, std::string_view resource) {
  if (value.is_int()) return Quantity::of(value.integer());
  auto parsed = Quantity::parse(value.string());
  if (parsed) return *parsed;
  log::warn("quantity of a node is not valid", {{"node", node}, {"resource", resource}, {"value", value.string()}});
  return {};
}

std::string label_of(const Labels& labels, std::string_view key) {
  const auto it = labels.find(std::string(key));
  return it == labels.end() ? std::string() : it->second;
}

std::int32_t number_of(std::string_view text, std::int32_t other) {
  return whole_number<std::int32_t>(text).value_or(other);
}

/// How long Kubernetes leaves the pod on a node with the taint: the minimum over the tolerations
/// that match it; -1 = as long as the taint exists.
std::int64_t seconds_tolerated(const Json& pod, std::string_view key) {
  constexpr std::int64_t kLongest = 10LL * 365 * 86'400;  // longer counts as forever
  const Taint taint{std::string(key), {}, "NoExecute"};
  bool tolerated = false;
  std::optional<std::int64_t> least;
  for (const Json& item : pod.path("spec.tolerations").items()) {
    const Toleration toleration{item["key"].string(), item["operator"].string(), item["value"].string(),
                                item["effect"].string()};
    if (!tolerates(toleration, taint)) continue;
    tolerated = true;
    if (!item["tolerationSeconds"].is_int()) continue;
    const auto stays = std::max<std::int64_t>(item["tolerationSeconds"].integer(), 0);
    least = std::min(least.value_or(stays), stays);
  }
  if (!tolerated) return 0;
  return least && *least <= kLongest ? *least : -1;
}

/// Parses {"policy":"single-numa-node","zones":[{"cpu":"56","memory":"1Ti","gpus":[0,1,2,3]}]},
/// less what is reserved for the system.
Result<Numa> numa_of(const std::string& annotation) {
  Numa out;
  QM_ASSIGN(const auto json, Json::parse(annotation));
  const auto& policy = json["policy"].string();
  const std::array policies{TopologyPolicy::kNone, TopologyPolicy::kBestEffort, TopologyPolicy::kRestricted,
                            TopologyPolicy::kSingleNumaNode};
  const auto known =
      std::ranges::find(policies, policy, [](TopologyPolicy p) { return std::string(placement::name_of(p)); });
  if (known == policies.end())
    return fail(Error{Code::kInvalid, fmt::format("there is no policy \"{}\"", policy), "policy",
                      "use a Topology Manager policy of the kubelet"});
  out.policy = *known;
  for (const Json& zone : json["zones"].items()) {
    auto& made = out.zones.emplace_back();
    if (!zone["cpu"].is_null()) {
      QM_ASSIGN(const auto cpu, Quantity::parse(zone["cpu"].string()));
      made.cpu_milli = cpu.milli();
    }
    if (!zone["memory"].is_null()) {
      QM_ASSIGN(const auto memory, Quantity::parse(zone["memory"].string()));
      made.memory_bytes = memory.units();
    }
    for (const Json& gpu : zone["gpus"].items()) made.gpus.push_back(static_cast<std::int32_t>(gpu.integer(-1)));
  }
  return out;
}

/// Parses [0,0,1,1].
Result<std::vector<std::int32_t>> switches_of(const std::string& annotation) {
  QM_ASSIGN(const auto json, Json::parse(annotation));
  std::vector<std::int32_t> out;
  for (const Json& pcie : json.items()) out.push_back(static_cast<std::int32_t>(pcie.integer(-1)));
  const bool all = !out.empty() && std::ranges::all_of(out, [](std::int32_t pcie) { return pcie >= 0; });
  if (!all) return fail(Code::kInvalid, "\"{}\" is not a list of numbers, one for each GPU", annotation);
  return out;
}

/// Parses "uid,uid". Empty parts are ignored.
std::vector<WorkloadUid> uids_of(const std::string& annotation) {
  std::vector<WorkloadUid> out;
  for (const std::string_view uid : split(annotation, ',')) {
    if (!uid.empty()) out.emplace_back(std::string(uid));
  }
  return out;
}

}  // namespace

NodeFacts node_from_json(const Json& node) {
  NodeFacts facts;
  const std::string name = kube::name_of(node);
  for (const auto& [key, value] : node.path("metadata.labels").members()) facts.labels[key] = value.string();
  facts.provider_id = node.path("spec.providerID").string();
  facts.instance_type = label_of(facts.labels, words::kInstanceType);
  facts.zone = label_of(facts.labels, words::kZone);
  facts.capacity_type = label_of(facts.labels, words::kCapacityType);
  facts.model = label_of(facts.labels, words::kGpuProduct);
  for (const Json& taint : node.path("spec.taints").items()) {
    facts.taints.push_back({taint["key"].string(), taint["value"].string(), taint["effect"].string()});
  }
  const Json& allocatable =
      node["status"].contains("allocatable") ? node["status"]["allocatable"] : node["status"]["capacity"];
  for (const auto& [resource, value] : allocatable.members()) {
    const Quantity amount = quantity_of(value, name, resource);
    if (resource == "cpu") {
      facts.cpu_milli = amount.milli();
    } else if (resource == "memory") {
      facts.memory_bytes = amount.units();
    } else if (resource == words::kGpuResource) {
      facts.gpus = static_cast<std::int32_t>(amount.units());
    } else if (resource == "pods") {
      facts.pods = amount.units();
    } else {
      facts.extended[resource] = amount.units();
    }
  }
  facts.gpus_installed = std::max(facts.gpus, number_of(label_of(facts.labels, words::kGpuCount), 0));
  for (const Json& condition : node.path("status.conditions").items()) {
    if (condition["type"].string() == "Ready") facts.ready = condition["status"].string() == "True";
  }
  // A node that is being deleted accepts no new pods either.
  facts.unschedulable = node.path("spec.unschedulable").boolean() || !node.path("metadata.deletionTimestamp").is_null();
  facts.cordoned_by = kube::annotation(node, kCordonedBy);
  facts.launched_for = uids_of(kube::annotation(node, words::kLaunchedFor));
  if (const auto annotation = kube::annotation(node, kNumaAnnotation); !annotation.empty()) {
    if (auto numa = numa_of(annotation)) {
      facts.numa = std::move(*numa);
    } else {
      log::warn("NUMA zones of a node are not valid and are ignored",
                {{"node", name}, {"error", numa.error().to_string()}});
    }
  }
  if (const auto annotation = kube::annotation(node, kSwitchesAnnotation); !annotation.empty()) {
    if (auto switches = switches_of(annotation)) {
      facts.switches = std::move(*switches);
    } else {
      log::warn("PCIe switches of a node are not valid and are ignored",
                {{"node", name}, {"error", switches.error().to_string()}});
    }
  }
  return facts;
}

PodFacts pod_from_json(const Json& pod) {
  PodFacts facts;
  facts.uid = kube::uid_of(pod);
  facts.ns = kube::namespace_of(pod);
  facts.name = kube::name_of(pod);
  for (const Json& owner : pod.path("metadata.ownerReferences").items()) {
    if (!owner["controller"].boolean()) continue;
    facts.controller = WorkloadUid(owner["uid"].string());
    facts.controller_kind = owner["kind"].string();
    facts.daemon = facts.controller_kind == "DaemonSet" || facts.controller_kind == "Node";
  }
  // Pods that are admitted on their own carry the workload that they belong to.
  const std::string workload = kube::annotation(pod, words::kWorkload);
  facts.owner = workload.empty() ? facts.controller : WorkloadUid(workload);
  facts.attempt = number_of(kube::annotation(pod, words::kAttempt), 0);
  facts.pod_set = kube::label(pod, kPodSetLabel);
  facts.workload_type = kube::label(pod, kWorkloadType);
  std::string index = kube::annotation(pod, words::kJobIndex);
  if (!workload.empty()) index = kube::annotation(pod, words::kIndex);
  facts.index = number_of(index.empty() ? kube::label(pod, words::kJobIndex) : index, -1);
  facts.node = NodeName(pod.path("spec.nodeName").string());
  const std::string& phase = pod.path("status.phase").string();
  facts.phase = phase == "Running"     ? PodPhase::kRunning
                : phase == "Succeeded" ? PodPhase::kSucceeded
                : phase == "Failed"    ? PodPhase::kFailed
                                       : PodPhase::kPending;
  facts.not_ready_s = seconds_tolerated(pod, "node.kubernetes.io/not-ready");
  facts.unreachable_s = seconds_tolerated(pod, "node.kubernetes.io/unreachable");
  facts.deleting = !pod.path("metadata.deletionTimestamp").is_null();
  facts.ours = pod.path("spec.schedulerName").string() == words::kScheduler;
  if (const Json& hint = pod[kHint]; hint.is_object()) {
    facts.ours = hint["ours"].boolean();
    if (!hint["owner"].string().empty()) {
      facts.owner = WorkloadUid(hint["owner"].string());
      facts.attempt = static_cast<std::int32_t>(hint["attempt"].integer());
      facts.index = static_cast<std::int32_t>(hint["index"].integer());
      facts.pod_set = hint["set"].string();
    }
  }
  auto shape = config::shape_held_by(pod);
  if (shape) {
    facts.shape = std::move(*shape);
  } else {
    log::warn("resource requests of a pod are not valid and count as zero",
              {{"pod", facts.key()}, {"error", shape.error().to_string()}});
  }
  auto like = kube_objects::template_from_pod(pod);
  if (like) {
    like->rules.requests.clear();  // the shape has them
    facts.rules = rules::text_of(*like);
  } else {
    log::warn("scheduling constraints of a pod are not valid and are ignored",
              {{"pod", facts.key()}, {"error", like.error().to_string()}});
  }
  return facts;
}

}  // namespace qm::placement
