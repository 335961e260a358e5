#include "steady_clock.hpp"

namespace {
std::chrono::nanoseconds steady{std::chrono::hours(1)};
}

// Back-offs of the host and of its executors run in steady time. Were it real, a schedule would depend on how busy the
// machine is. The executable's definition comes before that of the shared library.
std::chrono::steady_clock::time_point std::chrono::_V2::steady_clock::now() noexcept {
  return time_point(steady);
}

void qm::sim::advance_steady_time(std::chrono::microseconds by) { steady += by; }
