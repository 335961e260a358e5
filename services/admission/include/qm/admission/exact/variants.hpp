#pragma once
#include "qm/admission/exact/victims.hpp"

namespace qm::admission::exact {

/// Concurrent admission: a workload stands as several in one queue, each for one flavor, and one of them runs. The flavors of
/// the queue's first group are in the order of liking. A variant is passed over while one of a better flavor is admitted; where
/// one of a worse flavor is, that one makes way for it, unless its own flavor is beyond the last for which the queue moves.
///
/// Source   Kueue, pkg/scheduler/scheduler.go findAdmittedSibling, isMigrationAllowed.

/// The admitted variant of the same parent whose flavor is better, or worse; null where there is none.
[[nodiscard]] const Work* better_variant(const Field& field, const Work& work);
[[nodiscard]] const Work* worse_variant(const Field& field, const Work& work);
/// Whether another variant makes way for this one.
[[nodiscard]] bool may_migrate(const QueueRules& rules, const Work& work);

}  // namespace qm::admission::exact
