// Two definitions that override those of the shared libraries. Back-offs of the host and of its executors use steady
// time: if it were real, a schedule would depend on the load of the machine. And in a process with one thread a
// waiter cannot be woken, so a wait ends at once and advances the time by its timeout.
#include "steady_clock.hpp"

#include <algorithm>
#include <cerrno>
#include <pthread.h>

namespace {
std::chrono::nanoseconds steady{std::chrono::hours(1)};
}

std::chrono::steady_clock::time_point std::chrono::_V2::steady_clock::now() noexcept { return time_point(steady); }

extern "C" int pthread_cond_clockwait(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec* until) {
  steady = std::max<std::chrono::nanoseconds>(
      steady, std::chrono::seconds(until->tv_sec) + std::chrono::nanoseconds(until->tv_nsec));
  return ETIMEDOUT;
}

void qm::sim::advance_steady_time(std::chrono::microseconds by) { steady += by; }
