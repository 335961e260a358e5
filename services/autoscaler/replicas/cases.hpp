#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"

#include <string>

namespace qm::autoscaler::replicas {

/// Runs the ticks of one recorded case: a HorizontalPodAutoscaler or a ScaledObject with what it sees, tick by tick.
/// The result has the name and, for each tick, the decision.
///
/// Fails    kInvalid names the field of the case or of its object.
[[nodiscard]] Result<Json> run_case(const Json& recorded);

}  // namespace qm::autoscaler::replicas
