#pragma once
#include "qm/placement/bound/bound.hpp"

#include <vector>

namespace qm::placement::bound {

/// The problem with few enough classes and groups. Similar classes and groups are merged: a merged
/// pod requests less and a merged node has more, so every allocation of the original problem
/// remains possible. Pods that no node fits and nodes that no pod needs are left out.
struct Alike {
  std::vector<Wanted> wanted;
  std::vector<std::size_t> class_of;  ///< index in `wanted`, by class of the input
  std::vector<NodeGroup> nodes;
  std::vector<std::size_t> group_of;  ///< index in `nodes`, by group of the input
};
[[nodiscard]] Alike made_alike(std::span<const NodeGroup> nodes, std::span<const Wanted> wanted);

}  // namespace qm::placement::bound
