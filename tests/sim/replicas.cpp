#include "replicas.hpp"

namespace qm::sim {

MachineClock::MachineClock(const DomainClock& truth) : truth_(truth), since_(truth.now()), boot_(truth.now()) {
  restart_process();
}

Duration MachineClock::gained() const { return Duration{(truth_.now() - since_).count() * per_million_ / 1'000'000}; }

Duration MachineClock::ahead() const { return offset_ + gained(); }

SteadyDuration MachineClock::until(Instant t) const {
  return t <= now() ? SteadyDuration::zero() : SteadyDuration(std::chrono::hours(1));
}

void MachineClock::confirm(Instant reference) const {
  process_->confirm(reference);
  rejections_ += process_->rejected() > Duration::zero() ? 1 : 0;
}

void MachineClock::run_at(int per_million) {
  const Instant now = truth_.now();
  offset_ = ahead();
  boot_ += (now - since_) + gained();
  since_ = now;
  const auto at = std::chrono::steady_clock::now();
  steady_offset_ = steady(at) - at;
  steady_since_ = at;
  per_million_ = per_million;
}

void MachineClock::correct() {
  run_at(0);
  offset_ = {};
}

void MachineClock::restart_process() {
  process_ = std::make_unique<SystemClock>(
      SystemClock::Sources{[this] { return micros(truth_.now() + ahead()); },
                           [this] { return micros(boot_ + (truth_.now() - since_) + gained()); }});
}

SteadyInstant MachineClock::steady(SteadyInstant at) const {
  return at + steady_offset_ + (at - steady_since_) * per_million_ / 1'000'000;
}

}  // namespace qm::sim
