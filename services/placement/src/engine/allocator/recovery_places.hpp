#pragma once
#include "qm/placement/policy.hpp"
#include "qm/placement/preference.hpp"
#include "qm/placement/proposals.hpp"

#include <span>
#include <string>
#include <vector>

namespace qm::placement {

/// The former nodes of a recovering gang, and the part of the fleet for its other pods.
struct RecoveryPlaces {
  std::span<const HeldCapacity> places;
  std::string level, value;  ///< a label of nodes; empty = anywhere
};

/// Places each pod on its held node again if it still fits, and the others inside the part. Their own
/// topology request is ignored: the part replaces it.
///
/// Cost     as place_gang() for the other pods.
[[nodiscard]] PlacementResult place_in_recovery(const std::vector<PodSet>& pod_sets, const RecoveryPlaces& recovery,
                                                FreeCapacity& free_capacity, const Preference& preference,
                                                InterPodConstraints* constraints, ResultDetail wanted);

}  // namespace qm::placement
