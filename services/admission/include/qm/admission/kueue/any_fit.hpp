#pragma once
#include "qm/admission/kueue/flavors.hpp"
#include "qm/admission/kueue/victims.hpp"

#include <optional>

namespace qm::admission::kueue {

/// Flavors under which a workload fits without preemption, in any combination; empty if there are none. Kueue assigns
/// flavors pod set by pod set without backtracking: one pod set may use quota that only another could have used.
/// Here each combination is considered, the first in the order of the queue's flavors wins, and fewer pods are
/// tried where allowed.
///
/// Law      Less free quota never makes a workload fit that did not fit before.
/// Cost     one flavor assignment for each combination, at most 512; of more combinations only these are tried.
[[nodiscard]] std::optional<Assignment> any_fit(const QuotaState& field, const Work& work);

}  // namespace qm::admission::kueue
