#pragma once
#include "qm/autoscaler/nodes/node_pods.hpp"
#include "qm/base/json.hpp"

namespace qm::autoscaler {

/// The kind of the owner that creates the pod again; empty = none.
[[nodiscard]] std::string controller_of(const Json& pod);
/// What decides about the eviction of the pod, without PodDisruptionBudgets.
[[nodiscard]] NodePod node_pod_of(const Json& pod);
/// What a Node object shows, without its pods.
[[nodiscard]] NodePods node_pods_of(const Json& node);

}  // namespace qm::autoscaler
