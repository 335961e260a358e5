#include "qm/service/call_limit.hpp"

namespace qm::service {

void CallLimit::ended(SteadyInstant now, SteadyDuration latency) {
  const double seconds = std::max(1e-6, std::chrono::duration<double>(latency).count());
  const std::lock_guard lock(mutex_);
  if (now - since_ >= kWindow / 2) {
    const bool stale = now - since_ >= kWindow;  // nothing was called in the last half
    if (stale) mean_ = seconds;
    before_ = stale ? std::nullopt : lowest_;
    lowest_.reset();
    since_ = now;
  }
  mean_ += kWeight * (seconds - mean_);
  lowest_ = std::min(lowest_.value_or(seconds), seconds);
}

int CallLimit::calls(SteadyDuration waited) const {
  const std::lock_guard lock(mutex_);
  if (!lowest_) return most_;
  const double lowest = std::min(*lowest_, before_.value_or(*lowest_));
  const double share = std::max(lowest / mean_, std::chrono::duration<double>(waited) / kPatience);
  return std::max(1, static_cast<int>(most_ * std::clamp(share, 0.25, 1.0) + 0.5));
}

}  // namespace qm::service
