#pragma once
#include "qm/base/time.hpp"

#include <array>
#include <cstddef>

namespace qm::admission::forecast {

/// How long something waits: half of the like wait no longer than `middle`, and all but a given share at each end lie between
/// `low` and `high`.
struct Interval {
  Duration low{}, middle{}, high{};
  [[nodiscard]] bool holds(Duration truth) const { return low <= truth && truth <= high; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// Widens or narrows intervals by how the earlier ones fared, each end on its own, so that in the long run the share of truths beyond
/// it is what it is meant to be, however wrong the model is.
///
/// Formula  low' = middle - f · (middle - low + grain), high' = middle + f · (high - middle + grain), not below zero. Each time
///          that it is known whether the truth was beyond an end (missed = 1, else 0), ln f of that end rises by step · (missed - target), and
///          is held within ± ln 64. Intervals whose middles are alike (by powers of four) share their factors.
/// Law      Only what is told changes anything. While a factor keeps off its bounds, the share missed in T times is within
///          (2 ln 64 + step) / (step · T) of the target, whatever the truths are.
/// Threads  one.
/// Cost     O(1).
/// Source   Gibbs and Candès 2021 (adaptive conformal inference); Angelopoulos, Candès and Tibshirani 2023 (quantile tracking).
class Correction {
 public:
  struct Settings {
    double target = 0.1;  ///< missed at each end
    double step = 0.25;
    Duration grain = std::chrono::minutes(1);
  };
  Correction() : Correction(Settings()) {}
  explicit Correction(Settings settings);

  [[nodiscard]] Interval corrected(const Interval& raw) const;
  /// Whether the truth was below the low end that was told from `raw`, or above the high one: known as soon as the end has passed,
  /// before the truth is. To wait for the truth would be to learn from short waits first.
  void learn_low(const Interval& raw, bool missed) { move(factors_[kind_of(raw)].low, missed); }
  void learn_high(const Interval& raw, bool missed) { move(factors_[kind_of(raw)].high, missed); }

 private:
  struct Ends {
    double low = 1, high = 1;
  };
  static constexpr std::size_t kKinds = 16;
  [[nodiscard]] static std::size_t kind_of(const Interval& raw);
  void move(double& factor, bool missed) const;
  Settings settings_;
  double up_ = 1, down_ = 1;
  std::array<Ends, kKinds> factors_;
};

}  // namespace qm::admission::forecast
