#pragma once
#include "qm/placement/obstacles.hpp"
#include "qm/placement/policy.hpp"

#include <string>
#include <vector>

namespace qm::placement {

/// Keys of node labels, the widest level first: zone, block, rack. Nodes are the last level, by the name kHostname.
using TopologyLevels = std::vector<std::string>;
inline constexpr std::string_view kHostname = "kubernetes.io/hostname";

/// Whether a set says how near to one another its pods are to stand.
[[nodiscard]] bool asks_topology(const std::vector<PodSet>& pod_sets);

/// As place_gang() for gangs of which a set asks for a topology, by the library of gangs (gang/request.hpp): nearness first, then the
/// fewest domains and nodes, then the policy's score. Consecutive ranks fill a node, then a rack, then the next.
///
/// A node without the label of a level that a set requires is no place for the set. Rules about neighbours that change from one pod of
/// the gang to the next are looked at only when its nodes are chosen: with them a gang may be called short that a search would fit.
///
/// Bounds   nodes are told apart by which of the sets they admit: behind the 63rd such group they admit none.
/// Threads  any; reads only its arguments. Rooms are changed only where a plan is found.
/// Cost     O(nodes * sets) to look at the rooms, and the search.
[[nodiscard]] Placed place_together(const std::vector<PodSet>& pod_sets, Rooms& rooms, const Preference& preference,
                                    const TopologyLevels& levels, Neighbourhood* beside = nullptr,
                                    Wanted wanted = Wanted::kReason);

/// Why the rooms do not have such a gang near together, by the topology alone, and wider levels and fewer pods as ways. Empty where they have.
[[nodiscard]] Obstacles obstacles_together(const std::vector<PodSet>& pod_sets, const Rooms& rooms,
                                           const Preference& preference, const TopologyLevels& levels);

}  // namespace qm::placement
