#pragma once
#include "qm/clock/clock.hpp"

namespace qm {

/// The upper bound of the wait that a clock returns, so that adding it to a steady time cannot overflow.
inline constexpr SteadyDuration kLongestWait = std::chrono::hours(24);

}  // namespace qm
