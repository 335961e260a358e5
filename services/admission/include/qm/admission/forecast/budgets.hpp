#pragma once
#include "qm/base/time.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace qm::admission::forecast {

/// An amount of GPU for a run time, in thousandths of a GPU-second; rounded up, saturated at the largest value.
[[nodiscard]] std::int64_t gpu_millis(std::int64_t gpu_milli, Duration run);
/// The cost of the same, in nano-dollars; rounded and saturated likewise.
[[nodiscard]] std::int64_t nano_usd(std::int64_t nano_usd_gpu_hour, std::int64_t gpu_milli, Duration run);

/// The allotment of each period: granted by cost, held when a workload is admitted, spent as cost settles.
///
/// A hold is taken from the allotment of the period in which the workload is admitted, for all of its expected run
/// time. It stays there after the period ends, until the work is settled for good. The free amount of an ended
/// period is carried to the current one by `carry_over_permille`, and so is what its last holds release later; the rest
/// lapses. No new hold is taken from an ended period.
///
/// A workload that runs longer than its hold covers needs more: take() extends the hold. Spending beyond the hold
/// is taken from the free amount, and the rest is owed. Owed amounts are paid first from whatever becomes free. If
/// a grant for a period is lowered, the free amount is reduced at once, and the rest as it becomes free.
///
/// Units    thousandths of a GPU-second, or nano-dollars: one unit for the whole budget.
/// Law      For each allotment granted + carried in = spent + held + free + carried out + lapsed, none of them
///          negative: it is never overdrawn. While anything is owed, nothing is free in the current one. Spent +
///          owed over all is the settled amount.
/// Order    A grant has the total of its period, and a settlement the total spending of a workload. So repetitions
///          change nothing, and the next message makes up for a lost one.
/// Threads  one.
/// Fails    kExhausted: not enough is free; kFailedPrecondition: no period is current; kInvalid: negative amounts,
///          overlapping periods.
/// Cost     O(log allotments).
/// Source   encumbrance accounting; Slurm, GrpTRESMins and GrpTRESRunMins.
class Budget {
 public:
  struct Period {
    Instant from, to;
    friend bool operator==(const Period&, const Period&) = default;
  };
  /// The hold of one attempt of a workload. It belongs to one budget, which makes all changes to it.
  struct Hold {
    std::map<Instant, std::int64_t> left;  ///< by the allotment that it is taken from
    std::int64_t seen = 0;                 ///< settled spending
    Instant until{};                       ///< expected end
    [[nodiscard]] std::int64_t amount() const;
    friend bool operator==(const Hold&, const Hold&) = default;
  };

  /// `amount` is the total of the period; the last `carry_over_permille` applies.
  Status grant(const Period& period, std::int64_t amount, int carry_over_permille, Instant now);
  /// Removes the grants of periods that have not begun.
  void forget_future(Instant now);
  /// Takes an amount, or an additional amount, for a hold from the current allotment. Zero always succeeds.
  Status take(Hold& hold, std::int64_t amount, Instant now);
  /// `spent`: total since the hold was taken.
  Status settle(Hold& hold, std::int64_t spent, Instant now);
  /// Frees the rest of the hold: the workload did not start, or it ended and is settled.
  void release(Hold& hold, Instant now);

  struct Allotment {
    Period period;
    int carry_over_permille = 0;
    std::int64_t granted_total = 0;  ///< granted total; less than `granted` while more is spent or held
    std::int64_t granted = 0, carried_in = 0, spent = 0, held = 0, carried_out = 0, lapsed = 0;
    [[nodiscard]] std::int64_t free() const { return granted + carried_in - spent - held - carried_out - lapsed; }
    friend bool operator==(const Allotment&, const Allotment&) = default;
  };
  /// Allotments that are current, in the future, or still have holds; by start.
  [[nodiscard]] const std::map<Instant, Allotment>& allotments() const { return allotments_; }
  /// The allotment whose period contains this instant, or null.
  [[nodiscard]] const Allotment* at(Instant now) const;
  [[nodiscard]] std::int64_t free(Instant now);
  [[nodiscard]] std::int64_t owed() const { return owed_; }
  /// In periods that are no longer among the allotments.
  [[nodiscard]] std::int64_t spent_before() const { return spent_before_; }

  /// Restores a stored budget.
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
