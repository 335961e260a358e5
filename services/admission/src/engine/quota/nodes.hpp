#pragma once
#include "lifecycle/transitions.hpp"

namespace qm::admission {

/// The nodes that topologies count, where no placement service runs.
///
/// Writes   nodes.
/// Cost     of a change of a node that a flavor with a topology has: as of an applied object, because all quota trees are
///          rebuilt with the nodes.
class Nodes {
 public:
  Nodes(EngineState& state, Transitions& transitions) : state_(state), transitions_(transitions) {}

  /// Workloads that are assigned to a node that has failed or is gone are evicted, as Kueue does where it finds no
  /// replacement.
  void on(const NodesUpdated& c);

 private:
  void evict_from(const NodeName& name, const NodeState& node, const char* why);

  EngineState& state_;
  Transitions& transitions_;
};

}  // namespace qm::admission
