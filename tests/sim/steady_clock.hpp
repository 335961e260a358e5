#pragma once
#include <chrono>

namespace qm::sim {

/// Steady time of this process, for back-offs and retries: only this call advances it. The definition in
/// steady_clock.cpp replaces the library's, so the code under test needs no injection point.
void advance_steady_time(std::chrono::microseconds by);

}  // namespace qm::sim
