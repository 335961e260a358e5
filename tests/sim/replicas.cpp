#include "replicas.hpp"

namespace qm::sim {

Instant MachineClock::raw() const {
  return truth_.now() + offset_ + Duration{(truth_.now() - since_).count() * per_million_ / 1'000'000};
}

Instant MachineClock::now() const {
  return from_micros(forward_->now(micros(raw()), [] { return std::chrono::steady_clock::now(); }));
}

SteadyDuration MachineClock::until(Instant t) const {
  return t <= now() ? SteadyDuration::zero() : SteadyDuration(std::chrono::hours(1));
}

void MachineClock::run_at(int per_million) {
  offset_ = raw() - truth_.now();
  since_ = truth_.now();
  const auto at = std::chrono::steady_clock::now();
  steady_offset_ = steady(at) - at;
  steady_since_ = at;
  per_million_ = per_million;
}

void MachineClock::correct() {
  run_at(0);
  offset_ = {};
}

void MachineClock::restart_process() { forward_ = std::make_unique<ForwardClock>(); }

SteadyInstant MachineClock::steady(SteadyInstant at) const {
  return at + steady_offset_ + (at - steady_since_) * per_million_ / 1'000'000;
}

}  // namespace qm::sim
