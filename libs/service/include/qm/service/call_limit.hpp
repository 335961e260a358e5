#pragma once
#include "qm/base/time.hpp"

#include <algorithm>
#include <mutex>
#include <optional>

namespace qm::service {

/// How many calls to a server are made at once, by their latency: as a busy server responds later, fewer are made, so
/// that other clients are served.
///
/// The limit is `most` at the lowest latency of the last kWindow, and falls in proportion to the mean latency: half of
/// `most` where calls take twice as long. Other clients of a busy server cannot stop the calls: the limit is at least a
/// quarter of `most`, and rises with the time that the work has waited, to `most` after kPatience. A server that is slow
/// for longer than kWindow gets `most` calls again: its latency is then the lowest.
///
/// Source   the gradient of TCP Vegas, as used for RPC servers.
/// Threads  any.
class CallLimit {
 public:
  static constexpr SteadyDuration kWindow = std::chrono::seconds(60);
  static constexpr double kWeight = 0.125;  ///< of a new latency in the mean
  static constexpr SteadyDuration kPatience = std::chrono::seconds(30);
  explicit CallLimit(int most) : most_(most) {}

  /// A call ended at `now`.
  void ended(SteadyInstant now, SteadyDuration latency);
  /// `waited`: since the oldest work without a call came.
  [[nodiscard]] int calls(SteadyDuration waited = {}) const;

 private:
  const int most_;
  mutable std::mutex mutex_;
  double mean_ = 0;                        ///< seconds
  SteadyInstant since_{};                  ///< start of the present half of the window
  std::optional<double> before_, lowest_;  ///< of the half before and of the present one, seconds
};

}  // namespace qm::service
