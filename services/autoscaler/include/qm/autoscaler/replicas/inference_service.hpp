#pragma once
#include "qm/autoscaler/replicas/spec.hpp"
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"

#include <string>
#include <vector>

namespace qm::autoscaler::replicas {

/// The scaling of the predictor of an InferenceService, as a HorizontalPodAutoscaler.
struct InferenceScaling {
  HpaSpec spec;
  std::vector<std::string> warnings;  ///< defaults that apply because the object does not set a field
};

/// Reads scaleMetric, scaleTarget, minReplicas and maxReplicas of the predictor of a serving.kserve.io InferenceService.
///
///   scaleMetric   metric                                             scaleTarget
///   gpu           gpu_utilization, average of the pods               percent; required
///   cpu, memory   the resource, as percent of the request            80
///   concurrency   queue_average_concurrent_requests, of the pods     100
///   rps           queue_requests_per_second, of the pods             200
///   (absent)      concurrency, with a warning
///
/// `gpu` is not KServe's own: its controller refuses it. The others and the defaults are those of KServe and Knative.
///
/// Fails    kInvalid names the field: another metric, a target that is missing or out of range.
/// Source   KServe 0.15, ComponentExtensionSpec; Knative Serving, the metrics of queue-proxy.
[[nodiscard]] Result<InferenceScaling> read_inference_service(const Json& object);

}  // namespace qm::autoscaler::replicas
