#pragma once
#include "qm/base/time.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace qm::admission::forecast {

/// What so much of a GPU for so long is, in thousandths of a GPU-second; rounded up, at most the largest there is.
[[nodiscard]] std::int64_t gpu_millis(std::int64_t gpu_milli, Duration run);
/// What it costs, in nano-dollars, likewise.
[[nodiscard]] std::int64_t nano_usd(std::int64_t nano_usd_gpu_hour, std::int64_t gpu_milli, Duration run);

/// What one queue may spend in each period: granted by cost, held when a workload is admitted, spent as cost settles.
///
/// A hold is taken from the allotment of the period in which the workload is admitted, for all of its expected run time, and stays
/// there when the period ends, until the work is settled for good. What an ended period has free goes to the current one as
/// `carry_permille` says, and so does what its last holds give back later; the rest lapses. Nothing new is held against an
/// ended period.
///
/// Who runs longer than was held for needs more: extend() asks, and due() names who has to. What was spent beyond the hold all
/// the same is taken from what is free, and where that is not enough it is owed; what is owed is paid first from whatever
/// comes free.
///
/// Units    thousandths of a GPU-second, or nano-dollars: one of them in all of a budget.
/// Law      Of each allotment granted + carried in = spent + held + free + carried out + lapsed, none of them negative: it is never
///          overdrawn. While anything is owed nothing is free in the current one. Spent + owed of all is what was settled.
/// Order    Grants and settlements carry one sequence, that of cost's events for the budget; what is not after the last one is passed
///          over. So replicas and repetitions change nothing. A settlement says what a workload spent in all, so that one
///          that was missed is made good by the next.
/// Threads  one.
/// Fails    kExhausted: not enough is free; kFailedPrecondition: no period is current; kAlreadyExists, kNotFound: of holds;
///          kInvalid: amounts below zero, periods that overlap.
/// Cost     O(log workloads + allotments).
/// Source   encumbrance accounting; Slurm, GrpTRESMins and GrpTRESRunMins.
class Budget {
 public:
  struct Period {
    Instant from, to;
    friend bool operator==(const Period&, const Period&) = default;
  };
  struct Grant {
    std::uint64_t sequence = 0;
    Period period;
    std::int64_t amount = 0;  ///< on top of what the period has
    int carry_permille = 0;   ///< of what is free at its end; the last one said counts
  };
  struct Settlement {
    std::uint64_t sequence = 0;
    std::string workload;
    std::int64_t spent = 0;  ///< in all since its hold; never less than before
    bool final = false;      ///< it has ended: the rest of its hold is free
  };

  /// Whether it was new.
  Result<bool> grant(const Grant& grant, Instant now);
  Result<bool> settle(const Settlement& settlement, Instant now);

  /// `until`: when it is expected to have ended.
  Status hold(const std::string& workload, std::int64_t amount, Instant until, Instant now);
  /// So much more, from the allotment of its hold, and where that has ended from the current one.
  Status extend(const std::string& workload, std::int64_t more, Instant until, Instant now);
  /// It did not start after all: its hold is free.
  Status release(const std::string& workload, Instant now);
  /// Who runs, and longer than was held for.
  [[nodiscard]] std::vector<std::string> due(Instant now) const;

  struct Allotment {
    Period period;
    int carry_permille = 0;
    std::int64_t granted = 0, carried_in = 0, spent = 0, held = 0, carried_out = 0, lapsed = 0;
    [[nodiscard]] std::int64_t free() const { return granted + carried_in - spent - held - carried_out - lapsed; }
    friend bool operator==(const Allotment&, const Allotment&) = default;
  };
  /// Those that are current, to come, or still have holds; by their beginning.
  [[nodiscard]] const std::map<Instant, Allotment>& allotments() const { return allotments_; }
  [[nodiscard]] std::int64_t free(Instant now);
  [[nodiscard]] std::int64_t owed() const { return owed_; }
  /// In periods that are not among the allotments any more.
  [[nodiscard]] std::int64_t spent_before() const { return spent_before_; }
  [[nodiscard]] std::uint64_t passed_over() const { return passed_over_; }
  friend bool operator==(const Budget&, const Budget&) = default;

 private:
  struct Hold {
    std::map<Instant, std::int64_t> left;  ///< by the allotment that holds it
    std::int64_t seen = 0;                 ///< spent, as settled
    Instant until;
    friend bool operator==(const Hold&, const Hold&) = default;
  };
  bool pass_over() { return ++passed_over_, false; }
  [[nodiscard]] Allotment* current(Instant now);
  void turn(Instant now);
  Status take(Hold& hold, std::int64_t amount, Instant now);
  void give_up(Hold& hold);
  void charge(Hold& hold, std::int64_t amount, Instant now);

  std::map<Instant, Allotment> allotments_;
  std::map<std::string, Hold> holds_;
  std::int64_t owed_ = 0, spent_before_ = 0;
  std::uint64_t last_ = 0, passed_over_ = 0;
};

}  // namespace qm::admission::forecast
