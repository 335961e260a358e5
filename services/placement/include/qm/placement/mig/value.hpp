#pragma once
#include "qm/placement/mig/table.hpp"

#include <cstdint>
#include <vector>

namespace qm::placement::mig {

/// How often each profile is asked for: weights by ProfileId, not negative, only their proportions count.
using Mix = std::vector<std::int64_t>;

/// What a GPU in each state is worth to requests that are still to come. Only differences count: placing an instance
/// costs what the state loses.
///
/// Order    integers: a tie is a tie, and not a matter of rounding.
using Worth = std::vector<std::int64_t>;

/// By fragmentation: idle memory slices that a request of the mix could not use are worth nothing. For each profile it is
/// the slices that no legal place of it covers; their mean over the mix, negative.
///
/// Units    slices times the sum of the weights.
/// Source   FGD's measure (Weng et al., USENIX ATC 2023, section 4), with a place for an instance as a task's fit.
Worth fragmentation_worth(const StateTable& table, const Mix& mix);

/// By scarcity: the state's relative value in the best management of one GPU on which requests of the mix arrive faster
/// than it can take them and instances end at random. A request pays a price; the prices are such that what the GPU takes
/// has the proportions of the mix, so a profile that is hard to place is dear. Sees what departures will leave behind,
/// which the fragments of the moment do not say.
///
/// Units    millionths of what one compute slice pays in its mean lifetime.
/// Cost     a tenth of a second for seven slices: once for each mix, not for each decision.
/// Source   shadow prices of separable routing (Krishnan, IEEE CDC 1990); prices by dual ascent.
Worth scarcity_worth(const StateTable& table, const Mix& mix);

}  // namespace qm::placement::mig
