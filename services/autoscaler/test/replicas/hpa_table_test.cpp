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

// Kubernetes v1.36: pkg/controller/podautoscaler/{horizontal,replica_calculator}_test.go.
// autoscaler | what a sync sees | desired replicas and the rule  condition=reason
//   autoscaler  min=1 max=100 zero (HPAScaleToZero) slow (without `behavior`, else no window and 100 pods in 15 s)
//               metrics: cpu=PERCENT mean=MILLI-CPU container=PERCENT pods=N object=N share=N (Object, AverageValue)
//               external=N each=N (External, AverageValue) odd=1 (of an unknown type)  up-tolerance= down-tolerance=
//   sees        n=REPLICAS status=REPLICAS (of its status) used=MILLI-CPU,... (of 1000 requested; - = missing, none = no sample) unready=I,... hot=I,...
//               (ready for 30 s) failed=I,... deleted=I,... gone=I,... (no pod, only its sample) pending=I,... bare (no request)
//               pods=N,... object=N external=N,... was-zero (scaled to zero by the autoscaler)
constexpr const char* kRows = R"(
# TestScaleUp
cpu=40 | n=4 used=600,600,600,600 | 6 metric ScalingActive=ValidMetricFound
# TestScaleUpContainer
container=40 | n=4 used=600,500,700,600 | 6 metric
# TestReplicaCalcScaleUpContainerHotCpuLessScale
container=40 | n=4 used=800,800,800,800 hot=3 | 6 metric
# TestReplicaCalcScaleUpContainerIgnoresFailedPods
container=35 | n=2 used=700,700,900,900 failed=2,3 | 4 metric
# TestReplicaCalcScaleUpContainerIgnoresDeletionPods
container=35 | n=2 used=700,700,900,900 deleted=2,3 | 4 metric
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
# TestReplicaCalcScaleUpCMUnreadyHotCpuScaleWouldScaleDown
pods=15 | n=3 pods=48,15,30 unready=0 hot=2 | 7 metric
# TestScaleUpCMObject
object=10 | n=3 object=16 | 5 metric
# TestScaleUpPerPodCMObject
share=10 | n=3 object=41 | 5 metric
# TestScaleUpFromZeroCMObject
min=0 zero object=15 | n=0 was-zero object=40 | 3 metric
# TestScaleUpFromZeroWithoutCondition
min=0 zero object=15 | n=0 object=40 | 0 disabled_at_zero ScalingActive=ScalingDisabled
# TestScaleUpFromZeroWhenMinReplicasIncreased
min=3 zero slow object=25 | n=0 was-zero object=20 | 3 min ScaledToZero=NotScaledToZero ScalingLimited=TooFewReplicas
# TestScaledToZeroConditionHandledOnNormalRescale
min=0 zero object=15 | n=2 was-zero object=40 | 6 metric ScaledToZero=NotScaledToZero
# TestScaleUpFromZeroIgnoresToleranceCMObject
min=0 zero object=100 | n=0 was-zero object=105 | 2 metric
# TestScaleUpCMExternal
external=6 | n=2 external=5,4 | 3 metric
# TestScaleUpPerPodCMExternal
each=3 | n=2 external=8 | 3 metric
# TestReplicaCalcScaleUpCMExternalIgnoresUnreadyPods
external=10 | n=3 external=16 unready=1 | 4 metric
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
# TestScaleDownPerPodCMExternal
each=10 | n=5 external=12,9 | 3 metric
# TestScaleDownContainerResource
container=50 | n=5 used=300,250,350,300,300 | 3 metric
# TestReplicaCalcScaleDownContainerExcludeUnreadyPods
container=50 | n=5 used=300,300,300,300,300 unready=3,4 | 2 metric
# TestReplicaCalcScaleDownContainerIgnoreHotCpuPods
container=50 | n=5 used=300,300,300,900,900 hot=3,4 | 2 metric
# TestReplicaCalcScaleDownExcludeUnscheduledPods
cpu=60 | n=4 used=130,-,-,- pending=1,2,3 | 1 metric
# TestScaleDownIncludeUnreadyPods
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
external=20 | n=3 external=12,9 | 3 tolerance
# TestTolerancePerPodCMExternal
each=10 | n=4 external=42 | 4 tolerance
# TestTolerancePerPodCMObject
share=10 | n=3 object=28 | 3 tolerance
# TestConfigurableTolerance Scaling up because of a 1% configurable tolerance
cpu=100 up-tolerance=0.01 | n=3 used=1010,1060,1020 | 4 metric
# TestConfigurableTolerance No scale-down because of a 90% configurable tolerance
cpu=100 down-tolerance=0.7 | n=3 used=400,300,350 | 3 tolerance
# TestMinReplicas
min=2 cpu=90 | n=3 used=10,95,10 | 2 min ScalingLimited=TooFewReplicas
# TestZeroMinReplicasDesiredZero
min=0 zero object=10 | n=3 object=0 | 0 metric
# TestScaleDownToZeroCMObject
min=0 zero share=10 | n=3 object=0 | 0 metric ScaledToZero=ScaledToZero
# TestScaleDownToZeroCMExternal
min=0 zero external=10 | n=2 external=0,0 | 0 metric ScaledToZero=ScaledToZero
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
# TestMoreReplicasThanSpecNoScale
cpu=60 | n=3 status=4 used=600,600,600,600 | 3 tolerance
# TestEmptyMetrics
cpu=100 | n=4 used=none | 4 all_metrics_failed ScalingActive=FailedGetResourceMetric
# TestEmptyCPURequest
cpu=100 | n=1 used=200 bare | 1 all_metrics_failed ScalingActive=FailedGetResourceMetric
# TestConditionFailedGetMetrics
pods=10 | n=3 | 3 all_metrics_failed ScalingActive=FailedGetPodsMetric
object=10 | n=3 | 3 all_metrics_failed ScalingActive=FailedGetObjectMetric
external=10 | n=3 | 3 all_metrics_failed ScalingActive=FailedGetExternalMetric
container=10 | n=3 | 3 all_metrics_failed ScalingActive=FailedGetContainerResourceMetric
# TestConditionInvalidSourceType
odd=1 | n=3 | 3 all_metrics_failed ScalingActive=InvalidMetricSourceType
# TestScaleUpOneMetricInvalid
cpu=30 odd=1 | n=3 used=400,300,500 | 4 metric ScalingActive=ValidMetricFound
# TestNoScaleDownOneMetricInvalid
cpu=50 odd=1 | n=5 used=100,100,100,100,100 | 5 failed_metric_blocks_scale_down ScalingActive=InvalidMetricSourceType
# TestScaleUpOneMetricEmpty
cpu=30 external=100 | n=3 used=400,300,500 | 4 metric ScalingActive=ValidMetricFound
# TestNoScaleDownOneMetricEmpty
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
# TestReplicaCalcMissingMetricsHotCpuNoChange
cpu=50 | n=3 used=-,130,400 hot=0 | 3 tolerance
# TestReplicaCalcMissingMetricsHotCpuScaleUp
cpu=50 | n=3 used=-,300,1700 hot=0 | 4 metric
# TestReplicaCalcMissingMetricsUnreadyChange
cpu=50 | n=3 used=-,90,440 unready=0 | 3 tolerance
# TestReplicaCalcMissingMetricsScaleDownTargetOver100
cpu=300 | n=4 used=-,300,100,200 unready=0 | 2 metric
# TestReplicaCalcDuringRollingUpdateWithMaxSurge
cpu=60 | n=2 used=200,200,- | 2 direction
# TestPlainMetricReplicaCalcMissingMetricsNoChangeEq
pods=30 | n=6 pods=30,28,32 | 6 tolerance
# TestReplicaCalcMissingMetricsUnreadyScaleDown
cpu=50 | n=4 used=140,120,130,- unready=2 | 3 metric
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
  return key == "odd" ? R"({"type": "Altitude"})" : "";
}

/// Rules without a window, of which `up` allows 100 pods in 15 s.
std::string fast_behavior(const Words& words) {
  const auto tolerance = [&](const char* key) {
    return words.get(key).empty() ? std::string() : fmt::format(R"("tolerance": "{}", )", words.get(key));
  };
  return fmt::format(
      R"({{"scaleUp": {{{}"policies": [{{"type": "Pods", "value": 100, "periodSeconds": 15}}]}}, "scaleDown": {{{}"stabilizationWindowSeconds": 0}}}})",
      tolerance("up-tolerance"), tolerance("down-tolerance"));
}

HpaSpec spec_of(const Words& words) {
  std::vector<std::string> metrics;
  for (const auto& [key, value] : words.named) {
    if (const auto json = metric_json(key, value); !json.empty()) metrics.push_back(json);
  }
  return hpa(fmt::format(R"("minReplicas": {}, "maxReplicas": {}, "metrics": [{}]{})", words.number("min", 1),
                         words.number("max", 100), fmt::join(metrics, ", "),
                         words.has("slow") ? "" : R"(, "behavior": )" + fast_behavior(words)));
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
  for (const auto i : indices(words, "pending")) {
    out.pods[i].phase = Pod::Phase::kPending;
    out.pods[i].ready.reset();
    out.pods[i].start.reset();
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
  out.status_replicas = static_cast<std::int32_t>(words.number("status", replicas));
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
  EXPECT_GE(rows.size(), 84U);
}

// behavior | sizes, earlier changes and recommendations | desired replicas and the rule
//   behavior  min= max= up=TYPE:VALUE/SECONDS,... down=... (policies) up-window=SECONDS down-window=...; - = defaults
//   seen      n=REPLICAS wants=REPLICAS (by its metric) ups=PODS@AGO,... downs=... recs=REPLICAS@AGO,...
constexpr const char* kBehaviorRows = R"(
# TestScalingWithRules scaleUp with default behavior
- | n=12 wants=90 | 24 rate_up
# TestScalingWithRules scaleUp with pods policy larger than percent policy
up=Pods:70/60,Percent:50/60 | n=20 wants=300 | 90 rate_up
# TestScalingWithRules scaleUp with percent policy larger than pods policy
up=Pods:3/60,Percent:150/60 | n=20 wants=300 | 50 rate_up
# TestScalingWithRules scaleUp with pod policy limitation
up=Pods:7/60 | n=9 wants=50 | 16 rate_up
# TestScalingWithRules scaleUp with percent policy limitation
up=Percent:33/60 | n=10 wants=50 | 14 rate_up
# TestScalingWithRules scaleUp with spec MaxReplicas limitation with large pod policy and events
max=40 up=Pods:90/60 | n=30 wants=99 ups=4@20,6@50 | 40 max
# TestScalingWithRules scaleUp with currentReplicas limitation with rate.PeriodSeconds with a lot of recent scale up events
up=Pods:6/120 | n=50 wants=99 ups=9@30,8@90 | 50 rate_up
# TestScalingWithRules scaleUp with pod policy and previous scale up events
up=Pods:20/120 | n=50 wants=99 ups=9@30,8@90 | 53 rate_up
# TestScalingWithRules scaleUp with percent policy and previous scale up events
up=Percent:50/120 | n=50 wants=99 ups=5@30,5@90 | 60 rate_up
# TestScalingWithRules scaleUp with percent policy and previous scale up and down events
up=Percent:100/300 | n=8 wants=40 ups=4@60 downs=2@60 | 12 rate_up
# TestScalingWithRules scaleDown with percent policy larger than pod policy
down=Pods:3/60,Percent:40/60 | n=50 wants=2 | 30 rate_down
# TestScalingWithRules scaleDown with pod policy larger than percent policy
down=Pods:9/60,Percent:4/60 | n=50 wants=2 | 41 rate_down
# TestScalingWithRules scaleDown with spec MinReplicas limitation with large percent policy
min=6 down=Percent:100/60 | n=30 wants=1 | 6 min
# TestScalingWithRules scaleDown with pod policy limitation
down=Pods:4/60 | n=10 wants=1 | 6 rate_down
# TestScalingWithRules scaleDown with percent policy limitation
down=Percent:25/60 | n=10 wants=1 | 7 rate_down
# TestScalingWithRules scaleDown with default policy and previous events
- | n=12 wants=5 downs=1@30,5@60 | 5 metric
# TestScalingWithRules scaleDown with pod policy limitation and previous events
down=Pods:8/120 | n=60 wants=2 downs=3@30,4@100 | 59 rate_down
# TestScalingWithRules scaleDown with percent policy limitation and previous events
down=Percent:50/120 | n=60 wants=2 downs=10@30,10@100 | 40 rate_down
# TestScalingWithRules scaleDown with percent policy and previous scale up and down events
down=Percent:50/180 | n=20 wants=1 ups=4@60 downs=8@60 | 12 rate_down
# TestScalingWithRules scaleDown with previous events preventing further scale down
down=Percent:10/120 | n=60 wants=2 downs=10@30,10@60 | 60 rate_down
# TestScalingWithRules scaleDown with with previous events still allowing more scale down
down=Percent:100/120 | n=12 wants=5 downs=9@30 | 5 metric
# TestScalingWithRules check 'outdated' flag for events for one behavior for up
up=Pods:15/60 | n=40 wants=90 ups=9@59,8@61 | 46 rate_up
# TestScalingWithRules check that events were not marked 'outdated' for two different policies in the behavior for up
up=Pods:15/30,Percent:50/120 | n=40 wants=90 ups=9@40,3@100 | 55 rate_up
# TestScalingWithRules check 'outdated' flag for events for one behavior for down
down=Pods:10/60 | n=40 wants=5 downs=4@59,8@61 | 34 rate_down
# TestNormalizeDesiredReplicasWithBehavior empty recommendations for scaling down
- | n=80 wants=5 | 5 metric
# TestNormalizeDesiredReplicasWithBehavior simple scale down stabilization
down-window=180 | n=80 wants=3 recs=6@120,9@60 | 9 stabilized_down
# TestNormalizeDesiredReplicasWithBehavior simple scale up stabilization
up-window=300 up=Pods:99/15 | n=2 wants=9 recs=5@120,6@60 | 5 stabilized_up
# TestNormalizeDesiredReplicasWithBehavior no scale down stabilization
up-window=300 down-window=0 | n=80 wants=3 recs=6@60 | 3 metric
# TestNormalizeDesiredReplicasWithBehavior no scale up stabilization
down-window=300 up=Pods:99/15 | n=2 wants=9 recs=3@60 | 9 metric
# TestNormalizeDesiredReplicasWithBehavior scale down stabilization, reuse one of obsolete recommendation element
down-window=180 | n=80 wants=3 recs=40@600,7@60,5@120 | 7 stabilized_down
# TestNormalizeDesiredReplicasWithBehavior scale up stabilization, reuse one of obsolete recommendation element
up-window=300 up=Pods:99/15 | n=2 wants=60 recs=3@6000,8@60,7@120,12@200 | 7 stabilized_up
# TestNormalizeDesiredReplicasWithBehavior scale up and down stabilization, do not scale up when prenormalized rec goes down
up-window=300 down-window=300 | n=4 wants=2 recs=4@6000,6@180 | 4 stabilized_down
# TestNormalizeDesiredReplicasWithBehavior scale up and down stabilization, do not scale down when prenormalized rec goes up
up-window=300 down-window=300 | n=4 wants=6 recs=4@6000,2@180 | 4 stabilized_up
)";

/// {"policies": [...], "stabilizationWindowSeconds": N} of the direction "up" or "down".
std::string rules_json(const Words& words, const std::string& direction) {
  std::vector<std::string> fields, policies;
  for (const auto& one : split(words.get(direction), ',')) {
    const auto colon = one.find(':'), slash = one.find('/');
    policies.push_back(fmt::format(R"({{"type": "{}", "value": {}, "periodSeconds": {}}})", one.substr(0, colon),
                                   one.substr(colon + 1, slash - colon - 1), one.substr(slash + 1)));
  }
  if (!policies.empty()) fields.push_back(fmt::format(R"("policies": [{}])", fmt::join(policies, ", ")));
  if (const auto window = words.get(direction + "-window"); !window.empty())
    fields.push_back(fmt::format(R"("stabilizationWindowSeconds": {})", window));
  return fmt::format("{{{}}}", fmt::join(fields, ", "));
}

/// The numbers of "NUMBER@AGO,...", each with its instant before second 0.
std::vector<std::pair<std::int32_t, Instant>> earlier(const Words& words, const char* key) {
  std::vector<std::pair<std::int32_t, Instant>> out;
  for (const auto& one : split(words.get(key), ',')) {
    const auto sign = one.find('@');
    out.emplace_back(std::stoi(one.substr(0, sign)), at(-std::stol(one.substr(sign + 1))));
  }
  return out;
}

TEST(Hpa, RowsOfBehaviorsHold) {
  const auto rows = table_rows(kBehaviorRows);
  for (const auto& [row, cells] : rows) {
    ASSERT_EQ(cells.size(), 3U) << row;
    const Words behavior(cells[0]), sees(cells[1]);
    Follower follower;
    follower.spec =
        hpa(fmt::format(R"("minReplicas": {}, "maxReplicas": {}, {}, "behavior": {{"scaleUp": {}, "scaleDown": {}}})",
                        behavior.number("min", 1), behavior.number("max", 1000), kQueue, rules_json(behavior, "up"),
                        rules_json(behavior, "down")));
    follower.replicas = static_cast<std::int32_t>(sees.number("n", 0));
    follower.state.recommendations.emplace();
    for (const auto& [pods, when] : earlier(sees, "ups")) follower.state.ups.push_back({when, pods, false});
    for (const auto& [pods, when] : earlier(sees, "downs")) follower.state.downs.push_back({when, pods, false});
    for (const auto& [size, when] : earlier(sees, "recs")) follower.state.recommendations->push_back({when, size});
    const auto decision = follower.tick(0, static_cast<std::int32_t>(sees.number("wants", 0)));
    EXPECT_EQ(fmt::format("{} {}", decision.desired, name_of(decision.rule)), cells[2]) << row;
  }
  EXPECT_GE(rows.size(), 33U);
}

}  // namespace hpa_table_test
}  // namespace qm::autoscaler::replicas
