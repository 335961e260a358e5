#pragma once
#include "qm/autoscaler/replicas/hpa.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace qm::autoscaler::replicas {

/// A load that a user assumes: all pods run, are ready and have the same values.
struct AssumedLoad {
  std::int32_t replicas = 1;
  /// By metric: of a resource percent of the request, of pods the value of each, else the value.
  std::map<std::string, double> values;
};

/// What an autoscaler would decide for the load: one sync, without a history, so that no earlier recommendation or change
/// limits it.
///
/// A metric without a value failed, as one whose API does not answer.
[[nodiscard]] HpaDecision decide_for(const HpaSpec& spec, const AssumedLoad& load);

}  // namespace qm::autoscaler::replicas
