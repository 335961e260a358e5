// Proposals of single metrics: ratios, tolerance, missing and unready pods.
#include "fixtures.hpp"

namespace qm::autoscaler::replicas {
namespace proposals_test {

using namespace fixtures;

HpaDecision decide(const HpaSpec& spec, const Observation& now, const ControllerOptions& options = {}) {
  HpaState state;
  return sync(spec, options, now, state);
}

HpaSpec cpu_spec(int percent, const std::string& more = "") {
  return hpa(fmt::format(R"("maxReplicas": 100, "metrics": [{{"type": "Resource", "resource": {{"name": "cpu",
      "target": {{"type": "Utilization", "averageUtilization": {}}}}}}}]{})",
                         percent, more));
}
const std::string kFast =
    R"(, "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}]}, "scaleDown": {"stabilizationWindowSeconds": 0}})";

HpaDecision with_cpu(int percent, const std::vector<std::int64_t>& used, std::int32_t replicas) {
  auto now = seen(0, replicas);
  now.readings.resource = cpu(0, used);
  return decide(cpu_spec(percent, kFast), now);
}

// S-220: four replicas at 90 percent of a target of 70 become six, and stay four at 75.
TEST(Proposals, FourReplicasBecomeSixAt90PercentAndStayFourAt75) {
  const auto six = with_cpu(70, {900, 900, 900, 900}, 4);
  EXPECT_EQ(six.desired, 6);
  EXPECT_EQ(six.rule, HpaRule::kMetric);
  const auto same = with_cpu(70, {750, 750, 750, 750}, 4);
  EXPECT_EQ(same.desired, 4);
  EXPECT_EQ(same.rule, HpaRule::kTolerance);
}

TEST(Proposals, ToleranceIncludesItsEdges) {
  EXPECT_EQ(with_cpu(50, {550, 550}, 2).rule, HpaRule::kTolerance);  // 1.1
  EXPECT_EQ(with_cpu(50, {559, 559}, 2).rule, HpaRule::kTolerance);  // 55.9 percent is truncated
  EXPECT_EQ(with_cpu(50, {560, 560}, 2).desired, 3);
  EXPECT_EQ(with_cpu(50, {450, 450}, 2).rule, HpaRule::kTolerance);  // 0.9
  EXPECT_EQ(with_cpu(50, {100, 100}, 2).desired, 1);
}

TEST(Proposals, MissingPodsMakeTheChangeSmaller) {
  EXPECT_EQ(with_cpu(50, {100, 100, -1, 100}, 4).desired, 3);  // 100 percent on the way down: 1300 / 4000
  EXPECT_EQ(with_cpu(50, {900, 900, -1}, 3).desired, 4);       // 0 on the way up: 1800 / 3000
  const auto flips = with_cpu(50, {450, 100, -1, -1}, 4);      // 27 percent, and 63 with the missing ones
  EXPECT_EQ(flips.desired, 4);
  EXPECT_EQ(flips.rule, HpaRule::kDirection);
  EXPECT_EQ(with_cpu(120, {1200, 1200, -1}, 3).rule, HpaRule::kTolerance);  // exactly 1: they stay out
  EXPECT_EQ(with_cpu(200, {200, 200, -1}, 3).desired, 2);                   // above 100: the target, 2400 / 3000
}

TEST(Proposals, PodsThatStartCountOnlyOnceTheyAreReadyForAWindow) {
  const auto young = [](std::int64_t now_second, bool ready, std::int64_t ready_since) {
    auto now = seen(now_second, 3);
    now.pods[2].start = at(0);
    now.pods[2].ready = ready;
    now.pods[2].ready_since = at(ready_since);
    now.readings.resource = cpu(now_second, {900, 900, 900});
    return decide(cpu_spec(50, kFast), now).desired;
  };
  EXPECT_EQ(young(100, false, 0), 4);   // set aside, then 0 as the ratio is above 1
  EXPECT_EQ(young(100, true, 50), 4);   // the window began before it was ready
  EXPECT_EQ(young(110, true, 50), 6);   // a whole window
  EXPECT_EQ(young(299, true, 240), 4);  // still within five minutes
  EXPECT_EQ(young(300, true, 260), 6);  // later, a ready pod counts at once
  EXPECT_EQ(young(400, false, 20), 4);  // never ready: its last transition is within 30 s of its start
  EXPECT_EQ(young(400, false, 30), 6);  // it was ready once
}

TEST(Proposals, PodsThatEndDoNotCount) {
  auto now = seen(0, 4);
  now.pods[2].deleted = true;
  now.pods[3].phase = Pod::Phase::kFailed;
  now.readings.resource = cpu(0, {900, 900, 900, 900});
  EXPECT_EQ(decide(cpu_spec(50, kFast), now).desired, 4);
  now.pods[3].phase = Pod::Phase::kPending;  // unready: it counts 0
  EXPECT_EQ(decide(cpu_spec(50, kFast), now).desired, 4);
  EXPECT_EQ(*decide(cpu_spec(50, kFast), now).proposals->front(), 4);
}

TEST(Proposals, ContainersWithoutRequestMakeTheMetricInvalid) {
  auto now = seen(0, 1);
  now.pods[0].containers["side"] = {};
  now.readings.resource = cpu(0, {900});
  EXPECT_EQ(decide(cpu_spec(50), now).rule, HpaRule::kAllMetricsFailed);
  now.pods[0].pod_requests = {{"cpu", 2000}};  // the request of the pod replaces those of its containers
  EXPECT_EQ(decide(cpu_spec(50), now).proposals->front(), 1);
  now.pods[0].pod_requests = {{"memory", 1}};  // it has none for cpu: the sum of those that there are
  EXPECT_EQ(decide(cpu_spec(50), now).proposals->front(), 2);
}

TEST(Proposals, ExternalValuesHoldStatusReplicasAndNegativeSumsGoToTheMaximum) {
  auto spec = hpa(R"("maxReplicas": 9, )" + kQueue);
  auto now = seen(0, 4);
  now.status_replicas = 3;
  now.readings.external["queue"] = {3000};
  auto decision = decide(spec, now);
  EXPECT_EQ(decision.proposals->front(), 3);  // within tolerance of the status, not of the spec
  now.readings.external["queue"] = {-1};
  decision = decide(spec, now);
  EXPECT_EQ(decision.proposals->front(), 2'147'483'647);
  now.readings.external["queue"] = {};
  EXPECT_EQ(decide(spec, now).rule, HpaRule::kAllMetricsFailed);
}

TEST(Proposals, AFailedMetricForbidsToScaleDown) {
  const auto spec = hpa(R"("maxReplicas": 9, "metrics": [
      {"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "1"}}},
      {"type": "Object", "object": {"describedObject": {}, "metric": {"name": "qps"}, "target": {"type": "Value", "value": "1"}}}])");
  auto now = seen(0, 4);
  now.readings.external["queue"] = {1000};
  HpaState state;
  EXPECT_EQ(sync(spec, {}, now, state).rule, HpaRule::kFailedMetricBlocksScaleDown);
  EXPECT_EQ(state.conditions["ScalingActive"].reason, "FailedGetObjectMetric");
  now.readings.external["queue"] = {6000};
  EXPECT_EQ(sync(spec, {}, now, state).desired, 6);
  EXPECT_EQ(state.conditions["ScalingActive"].reason, "ValidMetricFound");
}

TEST(Proposals, AtZeroReplicasThereIsNoToleranceAndTheAutoscalerMustHaveGoneThere) {
  const auto spec = hpa(R"("minReplicas": 0, "maxReplicas": 9, "metrics": [
      {"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "10"}}}])");
  ControllerOptions options;
  options.scale_to_zero = true;
  auto now = seen(0, 0);
  now.readings.external["queue"] = {10'500};
  HpaState state;
  EXPECT_EQ(sync(spec, options, now, state).rule, HpaRule::kDisabledAtZero);
  state.conditions["ScaledToZero"] = {true, "ScaledToZero", ""};
  EXPECT_EQ(sync(spec, options, now, state).desired, 2);
  EXPECT_FALSE(state.conditions["ScaledToZero"].status);
  state.conditions["ScaledToZero"] = {true, "ScaledToZero", ""};
  options.scale_to_zero = false;
  EXPECT_EQ(sync(spec, options, now, state).rule, HpaRule::kDisabledAtZero);
  EXPECT_FALSE(state.conditions.contains("ScaledToZero"));
}

}  // namespace proposals_test
}  // namespace qm::autoscaler::replicas
