#pragma once
#include "qm/placement/mig/table.hpp"

#include <map>

namespace qm::placement::mig {

/// Number of instances of each profile: all that mig-parted receives for a GPU.
using Counts = std::map<ProfileId, int>;

/// The layout that mig-parted creates for these counts: the largest profiles first, and if that fails the next
/// order, until one succeeds. Each instance gets the lowest free start. kNoState if no order succeeds.
///
/// Source   mig-parted, pkg/mig/config: SetMigConfig and iteratePermutationsUntilSuccess.
StateId parted_layout(const StateTable& table, const Counts& counts);

}  // namespace qm::placement::mig
