#pragma once
#include "qm/admission/exact/flavors.hpp"
#include "qm/admission/exact/victims.hpp"

#include <optional>

namespace qm::admission::exact {

/// Flavors under which a workload fits without anybody giving way, whichever they are; nothing where there are none. The choice
/// that Kueue makes pod set by pod set has no way back: one pod set may take what only another could have used. Here every
/// combination counts, the first in the order of the queue's flavors, and fewer pods where that will do.
///
/// Law      Less room never makes a fit where there was none.
/// Cost     a choice of flavors for each combination, at most 512; a workload with more of them is tried with those.
[[nodiscard]] std::optional<Assignment> any_fit(const Field& field, const Work& work);

}  // namespace qm::admission::exact
