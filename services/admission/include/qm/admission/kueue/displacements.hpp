#pragma once
#include <cstdint>
#include <map>
#include <set>

namespace qm::admission::kueue {

/// The preemptions among the workloads of one tree, kept acyclic, so that preemption terminates.
///
/// Above a workload are its preemptors, and the workloads above these. A plan for a workload has no victims above
/// it, and no victim twice while it waits for the same admission; otherwise the rules of the field apply. ADR 0019
/// proves that this suffices, for any order of admissions.
///
/// Workloads that are leaving already may be counted as victims by any plan: that is not a preemption.
///
/// Units    instants in the unit of the owner.
/// Law      no workload is above itself.
/// Threads  one.
/// Cost     displaced, above, barred: O(pairs); the others O(pairs of the workload · log).
class PreemptionGraph {
 public:
  struct Pair {
    std::int64_t at = 0;   ///< when it happened last
    bool settled = false;  ///< the preemptor was admitted since, and may preempt it again when it is pending again
    friend bool operator==(const Pair&, const Pair&) = default;
  };
  using Pairs = std::map<int, Pair>;

  /// Requires that `victim` is not barred for `by`.
  void displaced(int by, int victim, std::int64_t at);
  void admitted(int id);
  /// The workload has ended.
  void forget(int id);
  /// Preemptions before `instant` no longer bind. Called after an external change, an arrival or an end, so that a loop
  /// driven from outside runs at most once in that time.
  void relax(std::int64_t instant);
  /// Quota, rules or priorities changed: earlier preemptions no longer bind.
  void clear();

  [[nodiscard]] bool above(int a, int b) const;
  /// Workloads that a plan for `by` must not have as victims: all above it, and its victims since it became pending.
  [[nodiscard]] std::set<int> excluded_victims(int by) const;
  /// Whether it preempted a workload or was preempted: similar workloads may have other results.
  [[nodiscard]] bool knows(int id) const { return over_.contains(id) || under_.contains(id); }

  /// For rows: by victim, its preemptors. restore() reads them back.
  [[nodiscard]] const std::map<int, Pairs>& all() const { return over_; }
  [[nodiscard]] const Pairs& preemptors_of(int victim) const;
  void restore(int victim, const Pairs& preemptors);
  /// Removes the preemptors of a victim.
  void clear_preemptors(int victim);
  /// Victims whose preemptors changed since the last call.
  [[nodiscard]] std::set<int> take_changed();

 private:
  void drop(int by, int victim);

  std::map<int, Pairs> over_;           ///< victim -> preemptors
  std::map<int, std::set<int>> under_;  ///< preemptor -> victims
  std::set<int> changed_;
};

}  // namespace qm::admission::kueue
