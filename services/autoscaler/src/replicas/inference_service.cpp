#include "qm/autoscaler/replicas/inference_service.hpp"

#include "fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

namespace qm::autoscaler::replicas {
namespace {

constexpr std::int32_t kMostInt = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMilli = 1000;

struct ScaleMetric {
  std::string_view name;    ///< of scaleMetric
  std::string_view metric;  ///< of the resource or the pods
  MetricSource source = MetricSource::kPods;
  std::int32_t target = 0, most = kMostInt;  ///< the default, 0 = none; and the largest
};
constexpr std::array<ScaleMetric, 5> kMetrics{
    {{"gpu", "gpu_utilization", MetricSource::kPods, 0, 100},
     {"cpu", "cpu", MetricSource::kResource, 80},
     {"memory", "memory", MetricSource::kResource, 80},
     {"concurrency", "queue_average_concurrent_requests", MetricSource::kPods, 100},
     {"rps", "queue_requests_per_second", MetricSource::kPods, 200}}};
constexpr std::string_view kDefault = "concurrency";

}  // namespace

Result<InferenceScaling> read_inference_service(const Json& object) {
  Fault fault;
  Fields top(object, "", fault);
  if (top.text("kind", true) != "InferenceService") top.wrong("kind", "must be InferenceService");
  auto predictor = top.object("spec").object("predictor");
  InferenceScaling out;
  std::string name = predictor.text("scaleMetric", false);
  const auto target = predictor.integer("scaleTarget", 1, kMostInt);
  if (name.empty()) {
    name = kDefault;
    out.warnings.push_back(fmt::format(
        "spec.predictor.scaleMetric is not set, so that {} applies to {}; set gpu if it is the utilization of "
        "GPUs",
        kDefault, target ? fmt::format("scaleTarget {}", *target) : "the default of scaleTarget"));
  }
  const auto* const known = std::ranges::find(kMetrics, name, &ScaleMetric::name);
  if (known == kMetrics.end()) {
    predictor.wrong("scaleMetric", fmt::format("\"{}\" is not a metric", name),
                    "use gpu, concurrency, rps, cpu or memory, or a HorizontalPodAutoscaler for another one");
    return fail(std::move(*fault));
  }
  if (!target && known->target == 0) predictor.wrong("scaleTarget", "is missing", "set the utilization in percent");
  if (target && *target > known->most)
    predictor.wrong("scaleTarget", fmt::format("is {} percent", *target), "use a number from 1 to 100");
  Metric metric;
  metric.source = known->source;
  metric.name = std::string(known->metric);
  const std::int32_t value = target.value_or(known->target);
  metric.type = known->source == MetricSource::kResource ? TargetType::kUtilization : TargetType::kAverageValue;
  if (metric.type == TargetType::kUtilization) {
    metric.utilization = value;
  } else {
    metric.milli = value * kMilli;
  }
  out.spec.min = predictor.integer("minReplicas", 0, kMostInt).value_or(1);
  // As KServe has it: a maximum below the minimum is the minimum.
  out.spec.max = std::max({predictor.integer("maxReplicas", 0, kMostInt).value_or(0), out.spec.min, 1});
  out.spec.metrics = {metric};
  if (fault) return fail(std::move(*fault));
  return out;
}

}  // namespace qm::autoscaler::replicas
