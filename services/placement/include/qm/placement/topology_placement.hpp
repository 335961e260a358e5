#pragma once
#include "qm/placement/diagnosis.hpp"
#include "qm/placement/policy.hpp"

#include <string>
#include <vector>

namespace qm::placement {

/// Keys of node labels, the widest level first: zone, block, rack. Nodes are the last level, with the name
/// kHostname.
using TopologyLevels = std::vector<std::string>;
inline constexpr std::string_view kHostname = "kubernetes.io/hostname";

/// Whether a set has a topology request.
[[nodiscard]] bool has_topology(const std::vector<PodSet>& pod_sets);

/// Places gangs with a topology request, like place_gang(), by the gang library (gang/request.hpp): topology
/// first, then fewest domains and nodes, then the policy's score. Consecutive ranks fill a node, then a rack,
/// then the next.
///
/// A node without the label of a level that a set requires does not fit the set. Inter-pod rules that change
/// with every pod of the gang are checked only after its nodes are chosen. With such rules the result may be
/// a shortfall where a search would fit.
///
/// Bounds   nodes are grouped by the sets that they admit: from the 64th group on they admit none.
/// Threads  any; reads only its arguments. `free_capacity` changes only if a plan is found.
/// Cost     O(nodes * sets) to read `free_capacity`, and the search.
[[nodiscard]] PlacementResult place_in_topology(const std::vector<PodSet>& pod_sets, FreeCapacity& free_capacity,
                                                const Preference& preference, const TopologyLevels& levels,
                                                InterPodConstraints* constraints = nullptr,
                                                ResultDetail wanted = ResultDetail::kReason);

/// Why the nodes cannot meet the topology of such a gang, by the topology alone. Remedies are wider levels
/// and fewer pods. Empty if they can.
[[nodiscard]] Diagnosis diagnose_topology(const std::vector<PodSet>& pod_sets, const FreeCapacity& free_capacity,
                                          const Preference& preference, const TopologyLevels& levels);

}  // namespace qm::placement
