#pragma once
#include "qm/base/time.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace qm::admission::forecast {

/// What so much of a GPU for so long is, in thousandths of a GPU-second; rounded up, at most the largest there is.
[[nodiscard]] std::int64_t gpu_millis(std::int64_t gpu_milli, Duration run);
/// What it costs, in nano-dollars, likewise.
[[nodiscard]] std::int64_t nano_usd(std::int64_t nano_usd_gpu_hour, std::int64_t gpu_milli, Duration run);

/// What may be spent in each period: granted by cost, held when a workload is admitted, spent as cost settles.
///
/// A hold is taken from the allotment of the period in which the workload is admitted, for all of its expected run time, and stays
/// there when the period ends, until the work is settled for good. What an ended period has free goes to the current one as
/// `carry_permille` says, and so does what its last holds give back later; the rest lapses. Nothing new is held against an
/// ended period.
///
/// Who runs longer than was held for needs more: extend(). What was spent beyond the hold all
/// the same is taken from what is free, and where that is not enough it is owed; what is owed is paid first from whatever
/// comes free. A period that is granted less than before gives up what is free, and the rest as it comes free.
///
/// Units    thousandths of a GPU-second, or nano-dollars: one of them in all of a budget.
/// Law      Of each allotment granted + carried in = spent + held + free + carried out + lapsed, none of them negative: it is never
///          overdrawn. While anything is owed nothing is free in the current one. Spent + owed of all is what was settled.
/// Order    A grant says all that its period has, and a settlement what a workload spent in all, so that repetitions change
///          nothing and one that was missed is made good by the next.
/// Threads  one.
/// Fails    kExhausted: not enough is free; kFailedPrecondition: no period is current; kInvalid: amounts below zero, periods
///          that overlap.
/// Cost     O(log allotments).
/// Source   encumbrance accounting; Slurm, GrpTRESMins and GrpTRESRunMins.
class Budget {
 public:
  struct Period {
    Instant from, to;
    friend bool operator==(const Period&, const Period&) = default;
  };
  /// What is held for one attempt of a workload. It belongs to one budget, which is asked whenever it changes.
  struct Hold {
    std::map<Instant, std::int64_t> left;  ///< by the allotment that holds it
    std::int64_t seen = 0;                 ///< spent, as settled
    Instant until{};                       ///< when it is expected to have ended
    [[nodiscard]] std::int64_t amount() const;
    friend bool operator==(const Hold&, const Hold&) = default;
  };

  /// `amount` is all that the period has; the carry said last counts.
  Status grant(const Period& period, std::int64_t amount, int carry_permille, Instant now);
  /// Periods that have not begun are not granted any more.
  void forget_future(Instant now);
  /// So much for a hold, or so much more: from the current allotment. Nothing at all can always be held.
  Status take(Hold& hold, std::int64_t amount, Instant now);
  /// `spent` in all since its hold.
  Status settle(Hold& hold, std::int64_t spent, Instant now);
  /// It did not start after all, or it has ended and is settled: the rest of its hold is free.
  void release(Hold& hold, Instant now);

  struct Allotment {
    Period period;
    int carry_permille = 0;
    std::int64_t said = 0;  ///< that it has; less than `granted` while that much is spent or held
    std::int64_t granted = 0, carried_in = 0, spent = 0, held = 0, carried_out = 0, lapsed = 0;
    [[nodiscard]] std::int64_t free() const { return granted + carried_in - spent - held - carried_out - lapsed; }
    friend bool operator==(const Allotment&, const Allotment&) = default;
  };
  /// Those that are current, to come, or still have holds; by their beginning.
  [[nodiscard]] const std::map<Instant, Allotment>& allotments() const { return allotments_; }
  /// The one that this instant lies in, or null.
  [[nodiscard]] const Allotment* at(Instant now) const;
  [[nodiscard]] std::int64_t free(Instant now);
  [[nodiscard]] std::int64_t owed() const { return owed_; }
  /// In periods that are not among the allotments any more.
  [[nodiscard]] std::int64_t spent_before() const { return spent_before_; }

  /// As it was stored.
  static Budget restored(std::map<Instant, Allotment> allotments, std::int64_t owed, std::int64_t spent_before);
  friend bool operator==(const Budget&, const Budget&) = default;

 private:
  [[nodiscard]] Allotment* current(Instant now);
  void turn(Instant now);
  void give_up(Hold& hold);

  std::map<Instant, Allotment> allotments_;
  std::int64_t owed_ = 0, spent_before_ = 0;
};

}  // namespace qm::admission::forecast
