#include "qm/clock/clock.hpp"

#include "forward_clock.hpp"
#include "longest_wait.hpp"
#include "qm/base/assert.hpp"

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
  static ForwardClock forward;
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return from_micros(forward.now(std::chrono::duration_cast<Duration>(since_epoch).count(),
                                 [] { return std::chrono::steady_clock::now(); }));
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
