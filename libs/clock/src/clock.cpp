#include "qm/clock/clock.hpp"

#include "forward_clock.hpp"
#include "jump_guard.hpp"
#include "longest_wait.hpp"
#include "qm/base/assert.hpp"

#include <mutex>
#include <time.h>
#include <utility>

namespace qm {
namespace {

SteadyDuration bounded(Duration remaining) {
  if (remaining <= Duration::zero()) return SteadyDuration::zero();
  // Compared in microseconds: far instants do not fit nanoseconds.
  if (remaining >= std::chrono::duration_cast<Duration>(kLongestWait)) return kLongestWait;
  return remaining;
}

}  // namespace

// The host's clock may be stepped back or far ahead (NTP, an operator, a resumed VM); domain time must not follow.
struct SystemClock::State {
  Sources sources;
  JumpGuard jumps{kMaxJump};
  ForwardClock forward;
  std::mutex mutex;  // guards the pair of readings

  std::pair<std::int64_t, std::int64_t> read() {
    const std::lock_guard lock(mutex);
    const auto boot = sources.boot_us();
    return {sources.system_us(), boot};
  }
};

SystemClock::SystemClock() {
  static const auto shared = [] {
    auto state = std::make_shared<State>();
    state->sources = {[] {
                        const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
                        return std::chrono::duration_cast<Duration>(since_epoch).count();
                      },
                      [] {
                        timespec now{};
                        ::clock_gettime(CLOCK_BOOTTIME, &now);
                        return std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
                      }};
    return state;
  }();
  state_ = shared;
}

SystemClock::SystemClock(Sources sources) : state_(std::make_shared<State>()) { state_->sources = std::move(sources); }

SystemClock::~SystemClock() = default;

Instant SystemClock::now() const {
  const auto [system, boot] = state_->read();
  return from_micros(
      state_->forward.now(state_->jumps.now(system, boot), [] { return std::chrono::steady_clock::now(); }));
}

void SystemClock::confirm(Instant reference) const {
  const auto [system, boot] = state_->read();
  state_->jumps.confirm(system, boot, micros(reference));
}

Duration SystemClock::rejected() const { return state_->jumps.rejected(); }

SteadyDuration SystemClock::until(Instant t) const { return bounded(t - now()); }

Instant ManualClock::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

SteadyDuration ManualClock::until(Instant t) const {
  // The time of the next change is not known: the caller checks again after its slice.
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
