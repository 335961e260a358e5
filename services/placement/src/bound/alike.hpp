#pragma once
#include "qm/placement/bound/bound.hpp"

#include <vector>

namespace qm::placement::bound {

/// The question with few enough classes and groups: what differs little is made alike, pods by asking less and nodes by having
/// more, so that whatever was possible still is. Without pods that no node takes, and nodes that no pod needs.
struct Alike {
  std::vector<Wanted> wanted;
  std::vector<std::size_t> class_of;  ///< by class that was given
  std::vector<NodeGroup> nodes;
  std::vector<std::size_t> group_of;  ///< by group that was given
};
[[nodiscard]] Alike made_alike(std::span<const NodeGroup> nodes, std::span<const Wanted> wanted);

}  // namespace qm::placement::bound
