#pragma once
#include "qm/placement/plan/scene.hpp"

#include <optional>
#include <vector>

namespace qm::placement::plan {

/// The nodes that may receive the moved pods.
struct Targets {
  bool spares = false;                          ///< also nodes kept for repairs, if no other node is as near
  bool empty_nodes = true;                      ///< false: only nodes that have pods already
  bool nearest = true;                          ///< near the rest of the gang first; otherwise not
  const std::vector<NodeId>* among = nullptr;   ///< only these; null: all
  const std::vector<MicroUsd>* dear = nullptr;  ///< by node: higher values first; null: all alike
};

/// Pods of one set that do not fit together in a domain.
struct Cramped {
  std::int32_t set = 0, pods = 0;
  Domain domain;
};

/// Returns other seats for those pods of a gang that are on a node; the other pods keep theirs. The
/// rules of the gang hold: groups in their domains, slices whole, spread. The result has all seats
/// of the gang, or nothing if the pods do not fit elsewhere. The scene is not changed.
[[nodiscard]] std::optional<std::vector<Seat>> resettle(Scene& scene, GangId gang, NodeId from, const Targets& targets,
                                                        std::optional<Cramped>* why = nullptr);

}  // namespace qm::placement::plan
