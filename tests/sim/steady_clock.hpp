#pragma once
#include <chrono>

namespace qm::sim {

/// Steady time of this process, for back-offs and retries: it stands still but for this call. The definition in
/// steady_clock.cpp takes the place of the library's, so the code under test needs no seam for it.
void advance_steady_time(std::chrono::microseconds by);

}  // namespace qm::sim
