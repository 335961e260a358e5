#pragma once
#include "qm/admission/kueue/flavors.hpp"

namespace qm::admission::kueue {

/// Gates for the order in which a cycle processes its nominees, named after Kueue's gates.
struct OrderGates {
  bool priority_sorting = true;     ///< PrioritySortingWithinCohort
  bool preemptors_first = false;    ///< PrioritizePreemptorWorkloads
  bool keeps_scan_progress = true;  ///< FlavorFungibilityPreserveScanProgress
  bool non_borrowing_first = true;  ///< FairSharingPrioritizeNonBorrowing
};

/// A nominee in the order of a cycle.
struct Nominee {
  const Work& work;
  int borrowing = 0;
  bool preemptor = false;  ///< it has claimed victims that are not gone yet
};
/// Whether a is processed before b.
/// Source   Kueue, pkg/scheduler/scheduler.go, the classical iterator.
[[nodiscard]] bool goes_before(const Nominee& a, const Nominee& b, const OrderGates& gates);

/// The state of a child of a cohort if one of its nominees is admitted.
struct Contender {
  Nominee nominee;
  bool borrows_asked = false;  ///< of the requested resources, more than its own
  Share share;
};
/// The same in a tournament among the children of a cohort.
/// Source   Kueue, pkg/scheduler/fair_sharing_iterator.go.
[[nodiscard]] bool wins(const Contender& a, const Contender& b, const OrderGates& gates);

/// The entrant to process first; at most one entrant per queue. By goes_before, or with fair sharing cohort by
/// cohort the one whose child of the cohort would have the smallest share with it. The tree is unchanged
/// afterwards.
/// Cost     O(nominees), or O(nominees · depth · cells).
struct Entrant {
  Nominee nominee;
  const Amounts& usage;
};
[[nodiscard]] std::size_t first_of(Tree& tree, const std::vector<Entrant>& entrants, bool fair,
                                   const OrderGates& gates);

/// The amount that a nominee without victims reserves in this cycle: its full request, up to a bound. Without borrowing
/// this is the unused nominal quota of its queue, and with a borrowing limit what that allows.
[[nodiscard]] Amounts reserved(const Tree& tree, Node queue, const Amounts& asked, Mode mode, int borrowing);

/// Whether an admission counts at once as usage of its local queue: if the queue orders by usage, and once per reserved
/// quota.
/// Source   Kueue, pkg/scheduler/scheduler.go shouldApplyEntryPenalty.
[[nodiscard]] bool entry_counts(const QueueRules& rules, const Work& work);

/// Whether the flavor search restarts: the workload has another shape, or quota became free since an earlier cycle.
[[nodiscard]] bool outdated(const Scan& scan, int shape, std::int64_t cycle, std::int64_t generation,
                            const OrderGates& gates);

}  // namespace qm::admission::kueue
