#pragma once
#include "qm/placement/plan/plan.hpp"

namespace qm::placement::plan {

/// plan() for pods that ask for MIG instances.
[[nodiscard]] Result<Plan> plan_slices(const Scene& scene, const Wish& wish, const Terms& terms);

}  // namespace qm::placement::plan
