// What pods use of their node, and which of them keep it.
#include "qm/autoscaler/scale_down/scale_down.hpp"
#include "qm/kube_rules/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace qm::autoscaler {
namespace {

constexpr std::array<std::string_view, 3> kGpus{words::kGpuResource, "amd.com/gpu", "gpu.intel.com/i915"};

bool is_gpu(std::string_view resource) {
  return std::ranges::find(kGpus, resource) != kGpus.end() || resource.starts_with(words::kMigPrefix);
}

bool is_replicated(const NodePod& pod, const ScaleDownRules& rules) {
  if (pod.controller.empty()) return false;
  constexpr std::array<std::string_view, 4> kBuiltIn{"ReplicaSet", "ReplicationController", "Job", "StatefulSet"};
  return !rules.skip_custom_controllers || std::ranges::find(kBuiltIn, pod.controller) != kBuiltIn.end();
}

/// Why the pod keeps its node; empty = it does not.
std::string reason_of(const NodePod& pod, const ScaleDownRules& rules) {
  if (pod.kind != NodePod::Kind::kMoves || pod.terminating || pod.safe_to_evict == true) return {};
  if (pod.controller.empty()) return "has no controller that creates it again";
  if (!is_replicated(pod, rules)) return fmt::format("has the custom controller {}", pod.controller);
  if (rules.skip_system_pods && pod.system && pod.budget.empty())
    return "is of kube-system, and no PodDisruptionBudget selects it";
  if (pod.safe_to_evict == false) return "has the annotation safe-to-evict \"false\"";
  if (rules.skip_local_storage && !pod.local_volume.empty())
    return fmt::format("has the local volume {}", pod.local_volume);
  if (!pod.blocked_by.empty()) return fmt::format("is protected by PodDisruptionBudget {}", pod.blocked_by);
  return {};
}

}  // namespace

bool has_gpus(const NodePods& node) {
  return std::ranges::any_of(node.allocatable,
                             [](const auto& amount) { return amount.second > 0 && is_gpu(amount.first); });
}

Utilization utilization_of(const NodePods& node, bool ignore_daemon_sets) {
  std::map<std::string, std::int64_t> used, daemons;
  for (const NodePod& pod : node.pods) {
    if (pod.kind == NodePod::Kind::kMirror || pod.terminating || pod.rules.empty()) continue;
    const auto like = kube_rules::template_of(pod.rules);
    if (!like) continue;
    const bool ignored = ignore_daemon_sets && pod.kind == NodePod::Kind::kDaemon;
    for (const auto& [resource, amount] : like->rules.requests) (ignored ? daemons : used)[resource] += amount;
  }
  const bool gpus = has_gpus(node);
  Utilization out;
  for (const auto& [resource, allocatable] : node.allocatable) {
    const bool counts = gpus ? is_gpu(resource) : resource == "cpu" || resource == "memory";
    const std::int64_t whole = allocatable - (gpus ? 0 : daemons[resource]);
    if (!counts || whole <= 0) continue;
    const std::int64_t milli = used[resource] * 1000 / whole;
    if (out.resource.empty() || milli > out.milli) out = {resource, milli};
  }
  return out;
}

std::string blocking_pod(const NodePods& node, const ScaleDownRules& rules) {
  for (const NodePod& pod : node.pods) {
    if (const std::string why = reason_of(pod, rules); !why.empty()) return fmt::format("pod {} {}", pod.name, why);
  }
  return {};
}

}  // namespace qm::autoscaler
