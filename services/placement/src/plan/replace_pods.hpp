#pragma once
#include "qm/placement/plan/cluster_model.hpp"

#include <optional>
#include <vector>

namespace qm::placement::plan {

/// The nodes that may receive the moved pods.
struct Targets {
  const std::vector<NodeId>& nodes;                      ///< of these, nodes that have pods already
  const std::vector<MicroUsd>* cost_to_empty = nullptr;  ///< by node: higher values first; null: all alike
};

/// Returns other placements for those pods of a gang that are on a node; the other pods keep theirs. The
/// rules of the gang hold: groups in their domains, slices whole, spread. The result has all placements
/// of the gang, or nothing if the pods do not fit elsewhere. The model is not changed.
[[nodiscard]] std::optional<std::vector<PodPlacement>> replace_pods(ClusterModel& model, GangId gang, NodeId from,
                                                                    const Targets& targets);

}  // namespace qm::placement::plan
