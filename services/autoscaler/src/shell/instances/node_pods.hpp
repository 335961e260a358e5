#pragma once
#include "qm/autoscaler/scale_down/scale_down.hpp"
#include "qm/base/json.hpp"

namespace qm::autoscaler {

/// What decides about the eviction of the pod, without PodDisruptionBudgets.
[[nodiscard]] ScaleDownPod scale_down_pod_of(const Json& pod);
/// What a Node object shows, without its pods.
[[nodiscard]] NodePods node_pods_of(const Json& node);

}  // namespace qm::autoscaler
