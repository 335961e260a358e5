#pragma once
#include "qm/base/time.hpp"

#include <array>
#include <cstddef>
#include <vector>

namespace qm::admission::forecast {

/// A distribution of a wait: half of similar waits are at most `middle`, and all but a given share at each end are
/// between `low` and `high`.
struct Interval {
  Duration low{}, middle{}, high{};
  [[nodiscard]] bool holds(Duration truth) const { return low <= truth && truth <= high; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// Widens or narrows intervals by the accuracy of earlier ones. In the long run the share of waits beyond each end
/// is the target, for any error of the model. Each end and each group of workloads is corrected separately: large
/// requests are pending for other reasons than small ones, and their errors may be opposite.
///
/// Formula  low' = middle - f · (middle - low + grain), high' = middle + f · (high - middle + grain), not below
///          zero. When it is known whether the wait was beyond an end, ln f of that end rises by
///          step · (missed - target): missed is 1 if it was beyond, else 0. ln f is bounded to ± ln 8. The n-th step
///          is max(last_step, first_step / (1 + n / slowing)). Intervals of one group with similar middles (by powers
///          of four) share their factors, and start from the factors that all share.
/// Law      Only learn_low() and learn_high() change factors. The share missed in T observations is within
///          (2 ln 8 + first_step) / (last_step · T) of the target. This holds for any observations, while the factor
///          is not at its bounds.
/// Threads  one.
/// Cost     O(1).
/// Source   Gibbs and Candès 2021 (adaptive conformal inference); Angelopoulos, Barber and Bates 2024 (decreasing
///          steps).
class Correction {
 public:
  struct Settings {
    double target = 0.1;  ///< share missed at each end
    double first_step = 0.25, last_step = 0.05, slowing = 30;
    Duration grain = std::chrono::minutes(1);
  };
  Correction() : Correction(Settings()) {}
  explicit Correction(Settings settings);

  static constexpr std::size_t kGroups = 4;
  /// The group of a workload by its requested GPUs: below 2, 8, 64, or more.
  [[nodiscard]] static std::size_t group_of(double gpus) { return gpus < 2 ? 0 : gpus < 8 ? 1 : gpus < 64 ? 2 : 3; }

  [[nodiscard]] Interval corrected(const Interval& raw, std::size_t group) const;
  /// Learns whether the wait was below the low end, or above the high end, that was returned for `raw`. Call it as
  /// soon as the end has passed, before the wait is over. Waiting for the end of each wait would learn from short
  /// waits first.
  void learn_low(const Interval& raw, std::size_t group, bool missed) {
    learn(&Ends::low, kind_of(raw, group), missed);
  }
  void learn_high(const Interval& raw, std::size_t group, bool missed) {
    learn(&Ends::high, kind_of(raw, group), missed);
  }

  /// For rows: the changed factors, by number; and restore.
  struct Kept {
    std::size_t number = 0;
    double value = 1, steps = 0;
    friend bool operator==(const Kept&, const Kept&) = default;
  };
  [[nodiscard]] std::vector<Kept> kept() const;
  void restore(const std::vector<Kept>& factors);

 private:
  struct Factor {
    double value = 1;
    double steps = 0;  ///< number of steps so far
  };
  struct Ends {
    Factor low, high;
  };
  static constexpr std::size_t kKinds = 16;  ///< of middles
  [[nodiscard]] static std::size_t kind_of(const Interval& raw, std::size_t group);
  [[nodiscard]] double value(Factor Ends::*end, std::size_t kind) const;
  void learn(Factor Ends::*end, std::size_t kind, bool missed);
  void move(Factor& factor, bool missed) const;
  [[nodiscard]] Factor& factor(std::size_t number);
  Settings settings_;
  Ends all_;
  std::array<Ends, kKinds * kGroups> factors_;
};

}  // namespace qm::admission::forecast
