#include "replicas.hpp"

namespace qm::sim {

HostClock::HostClock(const DomainClock& truth) : truth_(truth), since_(truth.now()), boot_(truth.now()) {
  restart_process();
}

Duration HostClock::gained() const { return Duration{(truth_.now() - since_).count() * per_million_ / 1'000'000}; }

Duration HostClock::ahead() const { return offset_ + gained(); }

SteadyDuration HostClock::until(Instant t) const {
  return t <= now() ? SteadyDuration::zero() : SteadyDuration(std::chrono::hours(1));
}

void HostClock::confirm(Instant reference) const {
  process_->confirm(reference);
  rejections_ += process_->rejected() > Duration::zero() ? 1 : 0;
}

void HostClock::run_at(int per_million) {
  const Instant now = truth_.now();
  offset_ = ahead();
  boot_ += (now - since_) + gained();
  since_ = now;
  const auto at = std::chrono::steady_clock::now();
  steady_offset_ = steady(at) - at;
  steady_since_ = at;
  per_million_ = per_million;
}

void HostClock::correct() {
  run_at(0);
  offset_ = {};
}

void HostClock::restart_process() {
  process_ = std::make_unique<SystemClock>(
      SystemClock::Sources{[this] { return micros(truth_.now() + ahead()); },
                           [this] { return micros(boot_ + (truth_.now() - since_) + gained()); }});
}

SteadyInstant HostClock::steady(SteadyInstant at) const {
  return at + steady_offset_ + (at - steady_since_) * per_million_ / 1'000'000;
}

}  // namespace qm::sim
