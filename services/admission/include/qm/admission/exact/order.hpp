#pragma once
#include "qm/admission/exact/flavors.hpp"

namespace qm::admission::exact {

/// Switches of the order in which a cycle takes its nominees, named after Kueue's gates.
struct OrderGates {
  bool priority_sorting = true;     ///< PrioritySortingWithinCohort
  bool preemptors_first = false;    ///< PrioritizePreemptorWorkloads
  bool keeps_scan_progress = true;  ///< FlavorFungibilityPreserveScanProgress
  bool non_borrowing_first = true;  ///< FairSharingPrioritizeNonBorrowing
};

/// A nominee as the order sees it.
struct Nominee {
  const Work& work;
  int borrowing = 0;
  bool preemptor = false;  ///< it waits for victims that it has claimed
};
/// Whether a is taken before b.
/// Source   Kueue, pkg/scheduler/scheduler.go, the classical iterator.
[[nodiscard]] bool goes_before(const Nominee& a, const Nominee& b, const OrderGates& gates);

/// How the child of a cohort would stand with one of its nominees.
struct Standing {
  Nominee nominee;
  bool borrows_asked = false;  ///< of what the nominee asks for, more than its own
  Share share;
};
/// The same in a tournament of a cohort's children.
/// Source   Kueue, pkg/scheduler/fair_sharing_iterator.go.
[[nodiscard]] bool wins(const Standing& a, const Standing& b, const OrderGates& gates);

/// The one of them that is taken first, at most one of each queue: classically by goes_before; with fair sharing cohort by
/// cohort the one whose child of the cohort would have the smallest share with it. The tree is as before afterwards.
/// Cost     O(nominees), or O(nominees · depth · cells).
struct Entrant {
  Nominee nominee;
  const Amounts& usage;
};
[[nodiscard]] std::size_t first_of(Tree& tree, const std::vector<Entrant>& entrants, bool fair,
                                   const OrderGates& gates);

/// What a nominee without victims keeps others from taking in this cycle: all that it asks for, but without borrowing no more
/// than its queue has left of its own, and with a borrowing limit no more than that leaves.
[[nodiscard]] Amounts reserved(const Tree& tree, Node queue, const Amounts& asked, Mode mode, int borrowing);

/// Whether an admission counts at once as usage of its local queue: where the queue orders by that, and once for each time that
/// quota is got.
/// Source   Kueue, pkg/scheduler/scheduler.go shouldApplyEntryPenalty.
[[nodiscard]] bool entry_counts(const QueueRules& rules, const Work& work);

/// Whether the search through the flavors begins anew: the workload has another shape, or since some cycles ago quota came free.
[[nodiscard]] bool outdated(const Scan& scan, int shape, std::int64_t cycle, std::int64_t generation,
                            const OrderGates& gates);

}  // namespace qm::admission::exact
