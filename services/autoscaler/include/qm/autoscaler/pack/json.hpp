#pragma once
#include "qm/autoscaler/pack/plan.hpp"
#include "qm/base/json.hpp"

namespace qm::autoscaler::pack {

/// Reads a problem in the format of docs/features/packing.md.
///
/// Fails    kInvalid: a field has a wrong type or value; the error names its path, such as "pods[3].cpu_m".
[[nodiscard]] Result<Problem> problem_of(const Json& json);

/// Writes a plan as an answer: nodes with the launched offering, unplaced pods with reasons, and the sums.
[[nodiscard]] Json answer_of(const Problem& problem, const Plan& plan);

}  // namespace qm::autoscaler::pack
