#include "qm/clock/clock.hpp"

#include "longest_wait.hpp"
#include "qm/base/assert.hpp"

#include <atomic>

namespace qm {
namespace {

SteadyDuration bounded(Duration remaining) {
  if (remaining <= Duration::zero()) return SteadyDuration::zero();
  // Compared in microseconds: far instants do not fit nanoseconds.
  if (remaining >= std::chrono::duration_cast<Duration>(kLongestWait)) return kLongestWait;
  return remaining;
}

}  // namespace

Instant SystemClock::now() const {
  // The machine's clock may be stepped back (NTP, an operator); the domain's may not.
  static std::atomic<std::int64_t> newest{INT64_MIN};
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t us = std::chrono::duration_cast<Duration>(since_epoch).count();
  std::int64_t seen = newest.load(std::memory_order_relaxed);
  while (seen < us && !newest.compare_exchange_weak(seen, us, std::memory_order_relaxed)) {
  }
  return from_micros(seen < us ? us : seen);
}

SteadyDuration SystemClock::until(Instant t) const { return bounded(t - now()); }

Instant ManualClock::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

SteadyDuration ManualClock::until(Instant t) const {
  // Nobody knows when it will be moved: not soon, so the caller looks again after its slice.
  return t <= now() ? SteadyDuration::zero() : kLongestWait;
}

void ManualClock::set(Instant t) {
  const std::lock_guard lock(mutex_);
  QM_ASSERT(t >= now_, "manual clock set back from {} to {}", micros(now_), micros(t));
  now_ = t;
}

Result<std::unique_ptr<DomainClock>> make_clock(std::string_view setting) {
  constexpr std::string_view kScaled = "scaled:";
  if (setting == "system") return std::make_unique<SystemClock>();
  if (setting.starts_with(kScaled) && setting.size() > kScaled.size()) {
    return ScaledClock::open(std::string(setting.substr(kScaled.size())));
  }
  return fail(Error{Code::kInvalid, fmt::format("there is no clock \"{}\"", setting), "clock",
                    "use \"system\", or \"scaled:PATH\" with the clock file of the fleet"});
}

}  // namespace qm
