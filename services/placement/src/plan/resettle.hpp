#pragma once
#include "qm/placement/plan/scene.hpp"

#include <optional>
#include <vector>

namespace qm::placement::plan {

/// Which nodes take pods that change their place.
struct Targets {
  bool spares = false;                          ///< those that are kept for repairs, too, where nothing else is as near
  bool empty_nodes = true;                      ///< false: only where somebody is already
  bool nearest = true;                          ///< near the rest of the gang first; otherwise not
  const std::vector<NodeId>* among = nullptr;   ///< only these; null: all
  const std::vector<MicroUsd>* dear = nullptr;  ///< by node: those with more of it first; null: all alike
};

/// Pods of one set that find no room together in a domain.
struct Cramped {
  std::int32_t set = 0, pods = 0;
  Domain domain;
};

/// Other seats for those of a gang's pods that are on a node; the others keep theirs. The gang keeps its rules: groups in their domains,
/// slices whole, spread. All its seats are returned, none where there is no room. The scene stays as it is.
[[nodiscard]] std::optional<std::vector<Seat>> resettle(Scene& scene, GangId gang, NodeId from, const Targets& targets,
                                                        std::optional<Cramped>* why = nullptr);

}  // namespace qm::placement::plan
