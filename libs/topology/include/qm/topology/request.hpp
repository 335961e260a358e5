#pragma once
#include "qm/kube_rules/node_selector.hpp"
#include "qm/topology/resources.hpp"
#include "qm/topology/tree.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::topology {

/// Pods in runs of `size`, each run inside one domain of the level.
struct SliceLayer {
  std::string level;
  Pods size = 0;
};

/// The topology constraint of a pod set. At most one of required, preferred and unconstrained is set.
struct TopologyRequest {
  std::optional<std::string> required;   ///< a level: all pods inside one domain of it
  std::optional<std::string> preferred;  ///< a level: inside one domain if possible, else of the next level up
  bool unconstrained = false;            ///< anywhere
  std::vector<SliceLayer> slices;        ///< outermost first; each size divides the one before
};

/// Pods in an assignment: by hostname if leaves are hosts, else by all level values.
struct AssignedDomain {
  std::vector<std::string> values;
  Pods count = 0;
  friend bool operator==(const AssignedDomain&, const AssignedDomain&) = default;
};
struct Assignment {
  std::vector<std::string> levels;
  std::vector<AssignedDomain> domains;
  friend bool operator==(const Assignment&, const Assignment&) = default;
};

/// The pods of one leaf.
struct LeafPods {
  DomainId leaf = kNoDomain;
  Pods pods = 0;
  friend bool operator==(const LeafPods&, const LeafPods&) = default;
};
using Placement = std::vector<LeafPods>;

/// Usage of leaves since the topology was built.
using AssumedUsage = std::map<DomainId, Requests>;

/// Feature gates of Kueue that change decisions, with Kueue's defaults.
struct Gates {
  bool profile_mixed = true;        ///< TASProfileMixed: unconstrained: leaves with least capacity first
  bool balanced = false;            ///< TASBalancedPlacement: preferred pod sets spread evenly over the fewest domains
  bool preferred_affinity = false;  ///< TASRespectNodeAffinityPreferred
  bool elastic = false;             ///< ElasticJobsViaWorkloadSlicesWithTAS: running pods stay on their node
};

/// One pod set of a workload.
struct PodSetRequest {
  std::string name;
  Pods count = 0;  ///< in whole slices of the outermost layer; the remainder is not placed
  Requests per_pod;
  std::optional<TopologyRequest> topology;
  bool implied = false;              ///< no topology was requested, but the queue has only flavors with one
  std::optional<std::string> group;  ///< pod sets of a group are placed together: a leader of one pod, and workers
  kube_rules::NodeConstraints rules;
  std::optional<Assignment> previous;  ///< of the workload slice that this one replaces
};

/// Whether the tree has all requested levels. A request without levels has none.
[[nodiscard]] bool has_levels(const Tree& tree, const std::optional<TopologyRequest>& request);
/// The level of a request: required, preferred, the highest for slices alone, the lowest for
/// unconstrained.
[[nodiscard]] std::optional<std::string> level_key(const Tree& tree, const std::optional<TopologyRequest>& request);

// Placements. Their order is preserved where readers depend on it: a truncated placement ends earlier, a merged one
// is by domain.
[[nodiscard]] Pods pods_of(const Placement& placement);
[[nodiscard]] Placement truncated(const Placement& placement, Pods pods);
[[nodiscard]] Placement merged(Placement a, const Placement& b);
void assume(AssumedUsage& usage, const Placement& placement, const Requests& per_pod);
[[nodiscard]] Assignment to_assignment(const Tree& tree, const Placement& placement);
/// The first value of the first domain that is not in the tree.
[[nodiscard]] std::optional<std::string> stale_domain(const Tree& tree, const Assignment& assignment);
/// Converts an assignment that is not stale.
[[nodiscard]] Placement to_placement(const Tree& tree, const Assignment& assignment);

}  // namespace qm::topology
