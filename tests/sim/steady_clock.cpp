// Two definitions that come before those of the shared libraries. Back-offs of the host and of its executors run in
// steady time: were it real, a schedule would depend on how busy the machine is. And in a process of one thread nobody
// can wake a waiter, so a wait ends at once, with the time that it was given.
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
