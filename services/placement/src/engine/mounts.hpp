#pragma once
#include "qm/placement/model.hpp"
#include "qm/placement/rules/pod_rules.hpp"

namespace qm::placement {

/// What the claims of a pod come to now.
///
/// A claim that is bound is where its volume is. One whose class waits for its first pod may go wherever the class makes volumes, until
/// a node is chosen; any other has to be bound first.
struct Mounts {
  std::vector<rules::VolumeReach> reach;
  std::string blocked;               ///< why no node will do; empty = some may
  std::string one_node;              ///< a claim whose volume is used on one node at a time
  std::vector<std::string> to_make;  ///< claims whose volumes are made where the pod goes
};

/// Nothing while storage was never told of, or where the template names no namespace.
[[nodiscard]] Mounts mounts_of(const Tables& tables, const rules::PodTemplate& like);

}  // namespace qm::placement
