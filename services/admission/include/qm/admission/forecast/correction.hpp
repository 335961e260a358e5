#pragma once
#include "qm/base/time.hpp"

#include <array>
#include <cstddef>
#include <vector>

namespace qm::admission::forecast {

/// How long something waits: half of the like wait no longer than `middle`, and all but a given share at each end lie between
/// `low` and `high`.
struct Interval {
  Duration low{}, middle{}, high{};
  [[nodiscard]] bool holds(Duration truth) const { return low <= truth && truth <= high; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// Widens or narrows intervals by how the earlier ones fared, each end on its own, and each group of workloads on its own: who asks
/// for much waits for other reasons than who asks for little, and what is wrong with one may be the opposite with the other, so that in the long run the share of truths beyond
/// it is what it is meant to be, however wrong the model is.
///
/// Formula  low' = middle - f · (middle - low + grain), high' = middle + f · (high - middle + grain), not below zero. Each time
///          that it is known whether the truth was beyond an end (missed = 1, else 0), ln f of that end rises by step · (missed - target), and
///          is held within ± ln 8. The n-th step is max(last_step, first_step / (1 + n / slowing)). Intervals of one group whose middles
///          are alike (by powers of four) share their factors, and begin with those that all share.
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

  static constexpr std::size_t kGroups = 4;
  /// The group of a workload that asks for so much, in GPUs: of less than two, eight, 64, or more.
  [[nodiscard]] static std::size_t group_of(double gpus) { return gpus < 2 ? 0 : gpus < 8 ? 1 : gpus < 64 ? 2 : 3; }

  [[nodiscard]] Interval corrected(const Interval& raw, std::size_t group) const;
  /// Whether the truth was below the low end that was told from `raw`, or above the high one: known as soon as the end has passed,
  /// before the truth is. To wait for the truth would be to learn from short waits first.
  void learn_low(const Interval& raw, std::size_t group, bool missed) {
    learn(&Ends::low, kind_of(raw, group), missed);
  }
  void learn_high(const Interval& raw, std::size_t group, bool missed) {
    learn(&Ends::high, kind_of(raw, group), missed);
  }

  /// For rows: the factors that were moved, by number; and back.
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
    double steps = 0;  ///< made so far
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
