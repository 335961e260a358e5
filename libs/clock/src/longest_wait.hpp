#pragma once
#include "qm/clock/clock.hpp"

namespace qm {

/// No clock asks its caller to wait longer than this, so that adding the answer to a steady instant cannot overflow.
inline constexpr SteadyDuration kLongestWait = std::chrono::hours(24);

}  // namespace qm
