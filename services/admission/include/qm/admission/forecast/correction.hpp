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
///          is held within ± ln 8. The n-th step is max(last_step, first_step / (1 + n / slowing)). Intervals whose middles are alike (by
///          powers of four) share their factors.
/// Law      Only what is told changes anything. While a factor keeps off its bounds, the share missed in T times is within
///          (2 ln 8 + first_step) / (last_step · T) of the target, whatever the truths are.
/// Threads  one.
/// Cost     O(1).
/// Source   Gibbs and Candès 2021 (adaptive conformal inference); Angelopoulos, Barber and Bates 2024 (steps that grow
///          smaller).
class Correction {
 public:
  struct Settings {
    double target = 0.1;  ///< missed at each end
    double first_step = 0.25, last_step = 0.05, slowing = 30;
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
  struct Factor {
    double value = 1;
    double steps = 0;  ///< made so far
  };
  struct Ends {
    Factor low, high;
  };
  static constexpr std::size_t kKinds = 16;
  [[nodiscard]] static std::size_t kind_of(const Interval& raw);
  void move(Factor& factor, bool missed) const;
  Settings settings_;
  std::array<Ends, kKinds> factors_;
};

}  // namespace qm::admission::forecast
