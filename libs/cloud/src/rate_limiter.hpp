#pragma once
#include "qm/base/time.hpp"

#include <cstdint>
#include <mutex>

namespace qm::cloud {

/// Slows the calls of one service down after it has throttled one: a token bucket whose rate falls to 70 % of the
/// measured rate at each throttled response and grows along a cubic curve with each other one. Before the first
/// throttled response, and a minute after the last one, it never waits.
///
/// Units    calls per second. Threads any. Cost O(1).
/// Source   botocore, retries/adaptive.py and throttling.py (CUBIC congestion control, RFC 8312). Unlike there, a caller
///          takes its token in advance and waits at most kLongestWait, and throttling is forgotten.
class RateLimiter {
 public:
  static constexpr SteadyDuration kLongestWait = std::chrono::seconds(5);
  static constexpr SteadyDuration kForget = std::chrono::seconds(60);

  explicit RateLimiter(SteadyInstant start);
  /// Takes the token of one call; returns the wait until it may be sent.
  [[nodiscard]] SteadyDuration take(SteadyInstant now);
  void on_response(SteadyInstant now, bool throttled);
  [[nodiscard]] double rate() const;  ///< of the bucket

 private:
  double measure(double now);
  void refill(double now);
  void set_rate(double now, double rate);

  mutable std::mutex mutex_;
  bool enabled_ = false;
  // The bucket.
  double fill_rate_ = 1, capacity_ = 0, most_ = 1, filled_at_;
  // The measured rate: calls in the current half second.
  double measured_ = 0, bucket_at_;
  std::int64_t count_ = 0;
  // The curve since the last throttled response.
  double peak_ = 0, growth_time_ = 0, throttled_at_;
};

}  // namespace qm::cloud
