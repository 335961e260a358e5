#pragma once
#include "qm/autoscaler/replicas/hpa.hpp"
#include "qm/base/result.hpp"

namespace qm::autoscaler::replicas {

struct Proposal {
  std::int32_t replicas = 0;
  HpaRule rule = HpaRule::kMetric;  ///< kTolerance, kDirection or kMetric
  double ratio = 0;                 ///< of the value to the target
};

/// The number of replicas that one metric asks for. The error says why the metric is invalid.
[[nodiscard]] Result<Proposal> propose(const Metric& metric, const HpaSpec& spec, const ControllerOptions& options,
                                       const Observation& seen);

/// The reason of the condition ScalingActive if the metric is invalid.
[[nodiscard]] std::string_view failure_reason(MetricSource source);

}  // namespace qm::autoscaler::replicas
