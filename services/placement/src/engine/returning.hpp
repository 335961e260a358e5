#pragma once
#include "qm/placement/policy.hpp"
#include "qm/placement/preference.hpp"
#include "qm/placement/proposals.hpp"

#include <span>
#include <string>
#include <vector>

namespace qm::placement {

/// The former nodes of a recovering gang, and the part of the fleet for its other pods.
struct Home {
  std::span<const HeldPlace> places;
  std::string level, value;  ///< a label of nodes; empty = anywhere
};

/// Places each pod on its held node again if it still fits, and the others inside the part. Their own
/// topology request is ignored: the part replaces it.
///
/// Cost     as place_gang() for the other pods.
[[nodiscard]] Placed place_again(const std::vector<PodSet>& pod_sets, const Home& home, Rooms& rooms,
                                 const Preference& preference, Neighbourhood* beside, Wanted wanted);

}  // namespace qm::placement
