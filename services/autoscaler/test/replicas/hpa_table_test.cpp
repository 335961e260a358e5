// Syncs of HorizontalPodAutoscalers as data: the name of an upstream test, and rows with inputs of our own.
#include "fixtures.hpp"
#include "qm/base/parse.hpp"
#include "qm/testing/text.hpp"

#include <fmt/ranges.h>

namespace qm::autoscaler::replicas {
namespace hpa_table_test {

using namespace fixtures;
using qm::testing::split;
using qm::testing::table_rows;
using qm::testing::Words;

// autoscaler | what a sync sees | desired replicas and the rule  condition=reason
//   autoscaler  min=1 max=100 zero (HPAScaleToZero) slow (without `behavior`, else no window and 100 pods in 15 s)
//               metrics: cpu=PERCENT mean=MILLI-CPU container=PERCENT pods=N object=N share=N (Object, AverageValue)
//               external=N each=N (External, AverageValue)
//   sees        n=REPLICAS used=MILLI-CPU,... (of 1000 requested; - = missing, none = no sample) unready=I,... hot=I,...
//               (ready for 30 s) failed=I,... deleted=I,... gone=I,... (no pod, only its sample) bare (no request)
//               pods=N,... object=N external=N,... was-zero (scaled to zero by the autoscaler)
constexpr const char* kRows = R"(
# TestScaleUp
cpu=40 | n=4 used=600,600,600,600 | 6 metric ScalingActive=ValidMetricFound
# TestScaleUpContainer
container=40 | n=4 used=600,500,700,600 | 6 metric
# TestScaleUpUnreadyLessScale
cpu=40 | n=4 used=800,800,800,800 unready=3 | 6 metric
# TestScaleUpHotCpuLessScale
cpu=40 | n=4 used=800,800,800,800 hot=3 | 6 metric
# TestScaleUpUnreadyNoScale
cpu=50 | n=4 used=600,600,600,600 unready=2,3 | 4 direction
# TestScaleUpHotCpuNoScale
cpu=50 | n=4 used=600,600,600,600 hot=2,3 | 4 direction
# TestScaleUpIgnoresFailedPods
cpu=35 | n=2 used=700,700,900,900 failed=2,3 | 4 metric
# TestScaleUpIgnoresDeletionPods
cpu=35 | n=2 used=700,700,900,900 deleted=2,3 | 4 metric
# TestScaleUpCM
pods=10 | n=3 pods=12,18,15 | 5 metric
# TestScaleUpCMUnreadyAndHotCpuNoLessScale
pods=10 | n=3 pods=15,15,15 unready=1 hot=2 | 5 metric
# TestScaleUpCMObject
object=10 | n=3 object=16 | 5 metric
# TestScaleUpPerPodCMObject
share=10 | n=3 object=41 | 5 metric
# TestScaleUpFromZeroCMObject
min=0 zero object=15 | n=0 was-zero object=40 | 3 metric
# TestScaleUpFromZeroIgnoresToleranceCMObject
min=0 zero object=100 | n=0 was-zero object=105 | 2 metric
# TestScaleUpCMExternal
external=6 | n=2 external=5,4 | 3 metric
# TestScaleUpPerPodCMExternal
each=3 | n=2 external=8 | 3 metric
# TestScaleDown
cpu=50 | n=5 used=300,300,300,300,300 | 3 metric AbleToScale=SucceededRescale
# TestScaleDownStabilizeInitialSize
slow cpu=50 | n=5 used=100,100,100,100,100 | 5 stabilized_down AbleToScale=ScaleDownStabilized
# TestScaleDownCM
pods=20 | n=5 pods=12,12,12,12,12 | 3 metric
# TestScaleDownCMObject
object=20 | n=5 object=12 | 3 metric
# TestScaleDownPerPodCMObject
share=10 | n=5 object=25 | 3 metric
# TestScaleDownCMExternal
external=20 | n=5 external=4,4,4 | 3 metric
# TestScaleDownIgnoresUnreadyPods
cpu=50 | n=5 used=300,300,300,300,300 unready=3,4 | 2 metric
# TestScaleDownIgnoreHotCpuPods
cpu=50 | n=5 used=300,300,300,900,900 hot=3,4 | 2 metric
# TestScaleDownIgnoresFailedPods
cpu=50 | n=5 used=300,300,300,300,300,900,900 failed=5,6 | 3 metric
# TestScaleDownIgnoresDeletionPods
cpu=50 | n=5 used=300,300,300,300,300,900,900 deleted=5,6 | 3 metric
# TestTolerance
cpu=100 | n=3 used=1010,1030,1020 | 3 tolerance
# TestToleranceCM
pods=20 | n=3 pods=20,21,21 | 3 tolerance
# TestToleranceCMObject
object=20 | n=3 object=21 | 3 tolerance
# TestToleranceCMExternal
each=10 | n=4 external=42 | 4 tolerance
# TestMinReplicas
min=2 cpu=90 | n=3 used=10,95,10 | 2 min ScalingLimited=TooFewReplicas
# TestZeroMinReplicasDesiredZero
min=0 zero object=10 | n=3 object=0 | 0 metric
# TestMinReplicasDesiredZero
min=2 object=10 | n=3 object=0 | 2 min
# TestZeroReplicas
min=3 cpu=90 | n=0 used=none | 0 disabled_at_zero ScalingActive=ScalingDisabled
# TestTooFewReplicas
min=3 cpu=90 | n=2 used=none | 3 below_min
# TestTooManyReplicas
max=5 cpu=90 | n=10 used=none | 5 above_max
# TestMaxReplicas
max=5 cpu=90 | n=3 used=8000,9500,1000 | 5 max ScalingLimited=TooManyReplicas
# TestUpscaleCap
slow cpu=10 | n=3 used=1000,1000,1000 | 6 rate_up ScalingLimited=ScaleUpLimit
slow cpu=10 | n=1 used=1000 | 4 rate_up
# TestUpscaleCapGreaterThanMaxReplicas
slow max=5 cpu=10 | n=3 used=1000,1000,1000 | 5 max ScalingLimited=TooManyReplicas
# TestSuperfluousMetrics
cpu=45 | n=2 used=900,900,100 gone=2 | 4 metric
# TestMissingMetrics
cpu=100 | n=4 used=400,100,-,- | 3 metric
# TestEmptyMetrics
cpu=100 | n=4 used=none | 4 all_metrics_failed ScalingActive=FailedGetResourceMetric
# TestEmptyCPURequest
cpu=100 | n=1 used=200 bare | 1 all_metrics_failed ScalingActive=FailedGetResourceMetric
# TestConditionFailedGetMetrics
pods=10 | n=3 | 3 all_metrics_failed ScalingActive=FailedGetPodsMetric
object=10 | n=3 | 3 all_metrics_failed ScalingActive=FailedGetObjectMetric
external=10 | n=3 | 3 all_metrics_failed ScalingActive=FailedGetExternalMetric
container=10 | n=3 | 3 all_metrics_failed ScalingActive=FailedGetContainerResourceMetric
# TestScaleUpOneMetricEmpty
cpu=30 external=100 | n=3 used=400,300,500 | 4 metric ScalingActive=ValidMetricFound
# TestScaleDownOneMetricEmpty
cpu=50 external=100 | n=5 used=100,100,100,100,100 | 5 failed_metric_blocks_scale_down ScalingActive=FailedGetExternalMetric
# TestReplicaCalcDisjointResourcesMetrics
cpu=100 | n=1 used=-,500 gone=1 | 1 all_metrics_failed
# TestReplicaCalcScaleUpCMObjectIgnoresUnreadyPods
object=10 | n=3 object=16 unready=2 | 4 metric
# TestReplicaCalcMissingMetricsNoChangeEq
cpu=100 | n=2 used=1000,- | 2 tolerance
# TestReplicaCalcMissingMetricsNoChangeGt
cpu=50 | n=2 used=950,- | 2 tolerance
# TestReplicaCalcMissingMetricsNoChangeLt
cpu=50 | n=2 used=10,- | 2 tolerance
# TestReplicaCalcMissingMetricsUnreadyScaleUp
cpu=50 | n=3 used=-,1950,900 unready=2 | 4 metric
# TestReplicaCalcMissingMetricsUnreadyScaleDown
cpu=50 | n=4 used=100,100,100,- unready=2 | 3 metric
)";

std::vector<std::size_t> indices(const Words& words, const char* key) {
  std::vector<std::size_t> out;
  for (const auto& one : split(words.get(key), ',')) out.push_back(std::stoul(one));
  return out;
}

std::string target(const char* type, const std::string& value) {
  const bool average = std::string(type) == "AverageValue";
  return fmt::format(R"("target": {{"type": "{}", "{}": "{}"}})", type, average ? "averageValue" : "value", value);
}

std::string metric_json(const std::string& key, const std::string& value) {
  const std::string utilization =
      fmt::format(R"("target": {{"type": "Utilization", "averageUtilization": {}}})", value);
  const std::string load = R"("metric": {"name": "load"}, )";
  if (key == "cpu") return fmt::format(R"({{"type": "Resource", "resource": {{"name": "cpu", {}}}}})", utilization);
  if (key == "container")
    return fmt::format(
        R"({{"type": "ContainerResource", "containerResource": {{"name": "cpu", "container": "app", {}}}}})",
        utilization);
  if (key == "pods") return fmt::format(R"({{"type": "Pods", "pods": {{{}{}}}}})", load, target("AverageValue", value));
  if (key == "object" || key == "share")
    return fmt::format(R"({{"type": "Object", "object": {{"describedObject": {{}}, {}{}}}}})", load,
                       target(key == "object" ? "Value" : "AverageValue", value));
  if (key == "external" || key == "each")
    return fmt::format(R"({{"type": "External", "external": {{{}{}}}}})", load,
                       target(key == "external" ? "Value" : "AverageValue", value));
  return "";
}

HpaSpec spec_of(const Words& words) {
  const std::string fast =
      R"(, "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}]}, "scaleDown": {"stabilizationWindowSeconds": 0}})";
  std::vector<std::string> metrics;
  for (const auto& [key, value] : words.named) {
    if (const auto json = metric_json(key, value); !json.empty()) metrics.push_back(json);
  }
  return hpa(fmt::format(R"("minReplicas": {}, "maxReplicas": {}, "metrics": [{}]{})", words.number("min", 1),
                         words.number("max", 100), fmt::join(metrics, ", "), words.has("slow") ? "" : fast));
}

void change_pods(Observation& out, const Words& words) {
  for (const auto i : indices(words, "unready")) {
    out.pods[i].ready = false;
    out.pods[i].start = out.pods[i].ready_since = at(-60);
  }
  for (const auto i : indices(words, "hot")) {
    out.pods[i].start = at(-60);
    out.pods[i].ready_since = at(-30);
  }
  for (const auto i : indices(words, "failed")) out.pods[i].phase = Pod::Phase::kFailed;
  for (const auto i : indices(words, "deleted")) out.pods[i].deleted = true;
  if (words.has("bare")) {
    for (auto& pod : out.pods) pod.containers["app"].clear();
  }
  const auto gone = indices(words, "gone");
  for (auto i = gone.rbegin(); i != gone.rend(); ++i) out.pods.erase(out.pods.begin() + static_cast<long>(*i));
}

Observation observed(const Words& words) {
  const auto replicas = static_cast<std::int32_t>(words.number("n", 0));
  const std::string used = words.get("used");
  std::vector<std::int64_t> samples;
  for (const auto& one : split(used == "none" ? "" : used, ',')) samples.push_back(one == "-" ? -1 : std::stol(one));
  Observation out = seen(0, replicas);
  for (auto i = out.pods.size(); i < samples.size(); ++i) out.pods.push_back(ready_pod("p" + std::to_string(i)));
  if (!used.empty()) out.readings.resource = cpu(0, samples);
  for (const auto& one : split(words.get("pods"), ',')) {
    auto& values = out.readings.pods["load"];
    values.push_back({"p" + std::to_string(values.size()), 1000 * std::stol(one)});
  }
  for (const auto& one : split(words.get("external"), ','))
    out.readings.external["load"].push_back(1000 * std::stol(one));
  if (const auto object = words.get("object"); !object.empty()) out.readings.object["load"] = 1000 * std::stol(object);
  change_pods(out, words);
  return out;
}

TEST(Hpa, RowsHold) {
  const auto rows = table_rows(kRows);
  for (const auto& [row, cells] : rows) {
    ASSERT_EQ(cells.size(), 3U) << row;
    const Words autoscaler(cells[0]), sees(cells[1]), expected(cells[2]);
    ControllerOptions options;
    options.scale_to_zero = autoscaler.has("zero");
    HpaState state;
    if (sees.has("was-zero")) state.conditions["ScaledToZero"] = {true, "ScaledToZero", ""};
    const auto decision = sync(spec_of(autoscaler), options, observed(sees), state);
    EXPECT_EQ(fmt::format("{} {}", decision.desired, name_of(decision.rule)),
              fmt::format("{}", fmt::join(expected.plain, " ")))
        << row;
    for (const auto& [type, reason] : expected.named) EXPECT_EQ(state.conditions[type].reason, reason) << row;
  }
  EXPECT_GE(rows.size(), 57U);
}

}  // namespace hpa_table_test
}  // namespace qm::autoscaler::replicas
