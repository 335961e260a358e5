#pragma once
#include "qm/model/ids.hpp"
#include "qm/model/resources.hpp"
#include "qm/topology/request.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace qm::admission {

/// Topologies of Kueue, where no placement service runs: admission then assigns nodes, and another scheduler follows.

/// A Topology object: the node labels of its levels, outermost first.
struct Topology {
  std::string name;
  std::vector<std::string> levels;
  std::string source;
  bool from_cluster = false;
  friend bool operator==(const Topology&, const Topology&) = default;
};

/// Amounts by resource: CPU in thousandths, everything else in units.
using NodeAmounts = std::map<std::string, std::int64_t>;

/// The fields of a node that decide which pods fit there.
struct NodeState {
  Labels labels;
  std::vector<Taint> taints;
  NodeAmounts allocatable;
  NodeAmounts used;  ///< by pods that admission did not assign to nodes; "pods" is their number
  bool ready = true;
  bool schedulable = true;
  bool failed = false;  ///< not ready for so long that its pods are lost
  friend bool operator==(const NodeState&, const NodeState&) = default;
};

/// A command: nodes that changed.
struct NodesUpdated {
  std::map<NodeName, NodeState> nodes;
  std::vector<NodeName> gone;
  bool complete = false;  ///< `nodes` are all nodes: others are gone
};

/// The nodes of a workload, by pod set. Pods are in order of rank: the first domain has the first ranks.
using TopologyAssignments = std::map<std::string, topology::Assignment>;

}  // namespace qm::admission
