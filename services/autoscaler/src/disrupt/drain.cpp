#include "qm/autoscaler/disrupt/drain.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

/// A minute after the end of its grace period, the kubelet of the node does not end the pod any more.
bool is_stuck(const DrainPod& pod, Instant now) {
  return pod.terminating && pod.deleted_by && now - *pod.deleted_by > std::chrono::minutes(1);
}

}  // namespace

DrainPlan next_steps(std::span<const DrainPod> pods, std::optional<Instant> deadline, Instant now) {
  DrainPlan out;
  const auto leaves = [now](const DrainPod& pod) { return !pod.stays && !is_stuck(pod, now); };
  const bool others_left = std::ranges::any_of(pods, [&](const DrainPod& pod) { return leaves(pod) && !pod.critical; });
  for (std::size_t i = 0; i < pods.size(); ++i) {
    const DrainPod& pod = pods[i];
    if (!leaves(pod)) continue;
    ++out.left;
    if (deadline && *deadline - pod.grace <= now) {
      // A deletion with a later end is shortened, one that ends in time is not repeated.
      if (pod.terminating && pod.deleted_by && *pod.deleted_by <= *deadline) continue;
      const auto rest = std::chrono::duration_cast<std::chrono::seconds>(*deadline - now).count();
      // With 0 the API server would remove the pod although its containers may still run.
      out.steps.push_back({i, DrainStep::Kind::kDelete, std::max<std::int64_t>(rest, 1)});
      continue;
    }
    if (pod.terminating || (pod.critical && others_left)) continue;
    if (!annotation_hold(std::span(&pod.holding, 1), now)) out.steps.push_back({i, DrainStep::Kind::kEvict, -1});
  }
  return out;
}

}  // namespace qm::autoscaler
