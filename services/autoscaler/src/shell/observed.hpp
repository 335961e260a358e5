#pragma once
// Observations of the API server's pods, for an autoscaler without the other services.
#include "qm/autoscaler/shell.hpp"
#include "qm/base/json.hpp"
#include "qm/kube/client.hpp"
#include "qm/kube_objects/rules.hpp"

namespace qm::autoscaler {

/// Whether the pod occupies its node: it has not ended, and is not a part of the node itself (DaemonSet, static pod).
[[nodiscard]] bool works(const Json& pod);
/// The node as the scheduler sees it, without the taint that is removed once its pods are nominated.
[[nodiscard]] Result<kube_rules::NodeView> view_of_running_node(const Json& node);
/// Whether a scheduler found the pod unschedulable.
[[nodiscard]] bool waits_for_capacity(const Json& pod);
/// Whether the pod belongs to kube-system and may be evicted from its node: it has a controller, no local storage, and
/// neither the annotation safe-to-evict "false" nor do-not-disrupt. With safe-to-evict "true" only this counts.
[[nodiscard]] bool is_evictable_system_pod(const Json& pod);
/// The number of pods that occupy this node now, by a consistent read.
Result<std::int64_t> working_pods(kube::Client& client, const std::string& node, SystemPods system_pods);
/// Evicts the evictable pods of kube-system from the node. kUnavailable: some are still there; call again.
Status evict_system_pods(kube::Client& client, const std::string& node);

}  // namespace qm::autoscaler
