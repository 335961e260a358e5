#include "rate_limiter.hpp"

#include <algorithm>
#include <cmath>

namespace qm::cloud {
namespace {

constexpr double kScale = 0.4, kBeta = 0.7, kLeastRate = 0.5, kSmoothing = 0.8, kBucketsPerSecond = 2, kMostGrowth = 2;

double seconds(SteadyInstant at) { return std::chrono::duration<double>(at.time_since_epoch()).count(); }

}  // namespace

RateLimiter::RateLimiter(SteadyInstant start)
    : filled_at_(seconds(start)), bucket_at_(std::floor(seconds(start))), throttled_at_(seconds(start)) {}

SteadyDuration RateLimiter::take(SteadyInstant now) {
  const std::lock_guard lock(mutex_);
  enabled_ = enabled_ && seconds(now) - throttled_at_ <= std::chrono::duration<double>(kForget).count();
  if (!enabled_) return {};
  refill(seconds(now));
  capacity_ -= 1;
  if (capacity_ >= 0) return {};
  const auto wait = std::chrono::duration_cast<SteadyDuration>(std::chrono::duration<double>(-capacity_ / fill_rate_));
  return std::min(wait, kLongestWait);
}

void RateLimiter::on_response(SteadyInstant at, bool throttled) {
  const std::lock_guard lock(mutex_);
  const double now = seconds(at);
  const double measured = measure(now);
  double next = 0;
  if (throttled) {
    peak_ = enabled_ ? std::min(measured, fill_rate_) : measured;
    growth_time_ = std::cbrt(peak_ * (1 - kBeta) / kScale);
    throttled_at_ = now;
    next = peak_ * kBeta;
    enabled_ = true;
  } else {
    next = kScale * std::pow(now - throttled_at_ - growth_time_, 3) + peak_;
  }
  set_rate(now, std::min(next, kMostGrowth * measured));
}

double RateLimiter::rate() const {
  const std::lock_guard lock(mutex_);
  return fill_rate_;
}

double RateLimiter::measure(double now) {
  const double bucket = std::floor(now * kBucketsPerSecond) / kBucketsPerSecond;
  ++count_;
  if (bucket > bucket_at_) {
    measured_ = static_cast<double>(count_) / (bucket - bucket_at_) * kSmoothing + measured_ * (1 - kSmoothing);
    count_ = 0;
    bucket_at_ = bucket;
  }
  return measured_;
}

void RateLimiter::refill(double now) {
  capacity_ = std::min(most_, capacity_ + (now - filled_at_) * fill_rate_);
  filled_at_ = now;
}

void RateLimiter::set_rate(double now, double rate) {
  refill(now);
  fill_rate_ = std::max(rate, kLeastRate);
  most_ = std::max(rate, 1.0);
  capacity_ = std::min(capacity_, most_);
}

}  // namespace qm::cloud
