#pragma once
#include "qm/admission/kueue/victims.hpp"

namespace qm::admission::kueue {

/// Concurrent admission: a workload has several variants in one queue, each for one flavor, and at most one of them is admitted.
/// The flavors of the queue's first group are in the order of preference. A variant is skipped while one of a better flavor is
/// admitted. An admitted variant of a worse flavor is preempted for it. That does not apply to flavors after the last one to which the
/// queue allows migration.
///
/// Source   Kueue, pkg/scheduler/scheduler.go findAdmittedSibling, isMigrationAllowed.

/// The admitted variant of the same parent whose flavor is better, or worse; null where there is none.
[[nodiscard]] const Work* better_variant(const QuotaState& field, const Work& work);
[[nodiscard]] const Work* worse_variant(const QuotaState& field, const Work& work);
/// Whether another variant is preempted for this one.
[[nodiscard]] bool may_migrate(const QueueRules& rules, const Work& work);

}  // namespace qm::admission::kueue
