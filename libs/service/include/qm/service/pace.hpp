#pragma once
#include "qm/base/time.hpp"

#include <algorithm>

namespace qm::service {

/// The time before which no further small batch is written, so that inputs which follow one another closely share the
/// cost of a transaction: kBurst batches at once, then one for each interval (a token bucket).
///
/// Threads  one at a time.
class Pace {
 public:
  static constexpr int kBurst = 10;
  explicit Pace(SteadyDuration interval) : interval_(interval) {}

  [[nodiscard]] SteadyInstant next() const { return full_ - (kBurst - 1) * interval_; }
  void written(SteadyInstant now) { full_ = std::max(full_, now) + interval_; }

 private:
  SteadyDuration interval_;
  SteadyInstant full_{};  ///< when the bucket is full again
};

}  // namespace qm::service
