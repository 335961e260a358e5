#pragma once
#include "qm/placement/policy.hpp"
#include "qm/placement/preference.hpp"
#include "qm/placement/proposals.hpp"

#include <span>
#include <string>
#include <vector>

namespace qm::placement {

/// Where a gang comes back to, and the part of the fleet that whoever is placed anew stays in.
struct Home {
  std::span<const HeldPlace> places;
  std::string level, value;  ///< a label of nodes; empty = anywhere
};

/// Each pod that has a place there to it, as long as the place will do, and the others inside the part, without regard to the topology that
/// they ask for: the part is what is left of it.
///
/// Cost     as place_gang() for those others.
[[nodiscard]] Placed place_again(const std::vector<PodSet>& pod_sets, const Home& home, Rooms& rooms,
                                 const Preference& preference, Neighbourhood* beside, Wanted wanted);

}  // namespace qm::placement
