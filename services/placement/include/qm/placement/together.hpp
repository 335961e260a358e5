#pragma once
#include "qm/placement/obstacles.hpp"
#include "qm/placement/policy.hpp"

#include <string>
#include <vector>

namespace qm::placement {

/// Keys of node labels, the widest level first: zone, block, rack. Nodes are the last level, with the name
/// kHostname.
using TopologyLevels = std::vector<std::string>;
inline constexpr std::string_view kHostname = "kubernetes.io/hostname";

/// Whether a set has a topology request.
[[nodiscard]] bool asks_topology(const std::vector<PodSet>& pod_sets);

/// Places gangs with a topology request, like place_gang(), by the gang library (gang/request.hpp): topology
/// first, then fewest domains and nodes, then the policy's score. Consecutive ranks fill a node, then a rack,
/// then the next.
///
/// A node without the label of a level that a set requires does not fit the set. Inter-pod rules that change
/// with every pod of the gang are checked only after its nodes are chosen. With such rules the result may be
/// a shortfall where a search would fit.
///
/// Bounds   nodes are grouped by the sets that they admit: from the 64th group on they admit none.
/// Threads  any; reads only its arguments. `rooms` changes only if a plan is found.
/// Cost     O(nodes * sets) to read `rooms`, and the search.
[[nodiscard]] Placed place_together(const std::vector<PodSet>& pod_sets, Rooms& rooms, const Preference& preference,
                                    const TopologyLevels& levels, Neighbourhood* beside = nullptr,
                                    Wanted wanted = Wanted::kReason);

/// Why the nodes cannot meet the topology of such a gang, by the topology alone. Remedies are wider levels
/// and fewer pods. Empty if they can.
[[nodiscard]] Obstacles obstacles_together(const std::vector<PodSet>& pod_sets, const Rooms& rooms,
                                           const Preference& preference, const TopologyLevels& levels);

}  // namespace qm::placement
