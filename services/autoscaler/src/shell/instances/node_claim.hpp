#pragma once
// The part of a NodeClaim object that decides how its node starts and ends.
#include "qm/autoscaler/engine.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/base/json.hpp"

#include <vector>

namespace qm::autoscaler {

/// What the intent of a launch has of the life of its node. `nominates`: pods are nominated for nodes, so the node starts
/// with kNominatingTaint. Not one with extended resources: its DaemonSets, which register them, do not tolerate the taint,
/// and without the resources it gets no pods that request them. Nor one of a group, which has a launch template.
[[nodiscard]] Json launch_lifecycle(const LaunchIntent& launch, bool nominates);
/// Adds to a NodeClaim what the intent has of the life of its node. With Karpenter as the driver the engine expires and
/// drifts nodes: Karpenter must not do the same without a checkpoint.
[[nodiscard]] Json with_lifecycle(Json node_claim, const Json& intent, Driver driver);
/// Taints with which the node registers: its startup taints, and Karpenter's, which is removed once it is known.
[[nodiscard]] std::vector<Taint> starting_taints(const Json& intent);

}  // namespace qm::autoscaler
