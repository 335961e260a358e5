// The scale loop: activation, cooldown, idle, fallback, pause; and the autoscaler that KEDA creates.
#include "fixtures.hpp"

namespace qm::autoscaler::replicas {
namespace keda_test {

using namespace fixtures;

const std::string kJobs =
    R"("triggers": [{"type": "aws-sqs-queue", "name": "jobs", "metadata": {"queueURL": "q", "awsRegion": "r", "queueLength": "5"}}])";
const std::string kLoad =
    R"("triggers": [{"type": "prometheus", "name": "load", "metadata": {"serverAddress": "s", "query": "q", "threshold": "10"}}])";

/// A target whose size both loops set.
struct Loops {
  ScaledObject object;
  ScalingAnnotations annotations;
  ScaledObjectState state;
  TriggerObservation now;

  Loops(const std::string& fields, std::int32_t replicas) : object(scaled_object(fields)) {
    state.created = at(-600);
    now.replicas = replicas;
  }
  void see(std::int64_t second) {
    now.now = at(second);
    now.status_replicas = now.replicas;
    now.pods = seen(second, now.replicas).pods;
  }
  LoopDecision loop(std::int64_t second) {
    see(second);
    const auto out = poll(object, annotations, now, state);
    now.replicas = out.replicas;
    return out;
  }
  TriggerHpaDecision autoscale(std::int64_t second) {
    see(second);
    const auto out = sync(object, annotations, {}, now, state);
    now.replicas = out.hpa.desired;
    return out;
  }
  void jobs(std::int64_t messages) { now.readings["jobs"] = QueueReading{messages, 0, 0}; }
  void load(double value) { now.readings["load"] = QueryReading{1, value}; }
  void fail_load() { now.readings["load"] = FailedReading{"connection refused"}; }
};

// S-225: 95, 250 and 0 messages.
TEST(QueueTrigger, GivesTheDocumentedCountsWithinItsBounds) {
  for (const auto& [messages, replicas] : {std::pair{95, 10}, std::pair{250, 20}, std::pair{0, 1}}) {
    Loops loops(R"("minReplicaCount": 1, "maxReplicaCount": 20, "triggers": [{"type": "aws-sqs-queue", "name": "jobs",
        "metadata": {"queueURL": "q", "awsRegion": "r", "queueLength": "10"}}],
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": {"scaleUp": {"policies": [
        {"type": "Pods", "value": 100, "periodSeconds": 15}]}, "scaleDown": {"stabilizationWindowSeconds": 0}}}})",
                5);
    loops.jobs(messages);
    EXPECT_EQ(loops.autoscale(0).hpa.desired, replicas) << messages;
  }
}

TEST(ScaleLoop, GoesToZeroAfterItsCooldownAndReturnsAboveTheActivationThreshold) {
  Loops loops(R"("cooldownPeriod": 60, "triggers": [{"type": "aws-sqs-queue", "name": "jobs",
      "metadata": {"queueURL": "q", "awsRegion": "r", "activationQueueLength": "2"}}])",
              0);
  loops.jobs(2);
  EXPECT_EQ(loops.loop(0).rule, LoopRule::kInactive);  // the threshold is exclusive
  loops.jobs(3);
  EXPECT_EQ(loops.loop(30).rule, LoopRule::kActivate);
  EXPECT_EQ(loops.now.replicas, 1);
  EXPECT_EQ(loops.loop(60).rule, LoopRule::kActive);
  loops.jobs(0);
  EXPECT_EQ(loops.loop(90).rule, LoopRule::kCooldown);
  EXPECT_EQ(loops.loop(120).rule, LoopRule::kCooldown);  // exactly 60 s
  EXPECT_EQ(loops.loop(121).rule, LoopRule::kDeactivate);
  EXPECT_EQ(loops.now.replicas, 0);
  EXPECT_EQ(loops.autoscale(121).hpa.rule, HpaRule::kDisabledAtZero);
  loops.jobs(50);
  EXPECT_EQ(loops.loop(150).replicas, 1);
}

TEST(ScaleLoop, WaitsForTheInitialCooldownWhileItWasNeverActive) {
  Loops loops(R"("initialCooldownPeriod": 120, )" + kJobs, 4);
  loops.state.created = at(0);
  loops.jobs(0);
  EXPECT_EQ(loops.loop(120).rule, LoopRule::kInitialCooldown);
  EXPECT_EQ(loops.loop(121).rule, LoopRule::kDeactivate);
}

TEST(ScaleLoop, IdlesInsteadOfTheMinimum) {
  Loops loops(R"("cooldownPeriod": 0, "idleReplicaCount": 0, "minReplicaCount": 2, )" + kJobs, 2);
  loops.jobs(0);
  EXPECT_EQ(loops.loop(0).rule, LoopRule::kDeactivateToIdle);
  EXPECT_EQ(loops.autoscale(0).hpa.rule, HpaRule::kDisabledAtZero);
  loops.jobs(1);
  EXPECT_EQ(loops.loop(30).replicas, 2);
  EXPECT_EQ(loops.autoscale(30).hpa.rule, HpaRule::kMin);
}

TEST(ScaleLoop, RaisesToTheMinimum) {
  Loops loops(R"("minReplicaCount": 3, )" + kJobs, 1);
  loops.jobs(0);
  EXPECT_EQ(loops.loop(0).rule, LoopRule::kRaiseToMin);
  EXPECT_EQ(loops.now.replicas, 3);
}

TEST(ScaleLoop, ErrorsHoldTheSize) {
  Loops loops(R"("cooldownPeriod": 0, )" + kLoad, 3);
  loops.fail_load();
  EXPECT_EQ(loops.loop(0).rule, LoopRule::kErrorNoFallback);
  EXPECT_EQ(loops.autoscale(0).hpa.rule, HpaRule::kAllMetricsFailed);
  EXPECT_EQ(loops.now.replicas, 3);
  EXPECT_FALSE(loops.state.last_active);
}

TEST(ScaleLoop, AnActivePassWithAnErrorDoesNotRenewTheCooldown) {
  Loops loops(kJobs.substr(0, kJobs.size() - 1) + ", " + kLoad.substr(kLoad.find("[") + 1), 3);
  loops.fail_load();
  loops.jobs(5);
  EXPECT_EQ(loops.loop(0).rule, LoopRule::kActivePartialError);
  EXPECT_FALSE(loops.state.last_active);
}

TEST(FallbackOfTriggers, BeginsAfterTheThresholdAndBothLoopsCount) {
  Loops loops(R"("minReplicaCount": 1, "fallback": {"failureThreshold": 3, "replicas": 6}, )" + kLoad, 2);
  loops.fail_load();
  EXPECT_EQ(loops.loop(0).rule, LoopRule::kErrorWaitsForFallback);
  EXPECT_EQ(loops.autoscale(0).hpa.rule, HpaRule::kAllMetricsFailed);
  EXPECT_EQ(loops.autoscale(15).hpa.rule, HpaRule::kAllMetricsFailed);
  const auto fourth = loops.loop(30);
  EXPECT_EQ(fourth.rule, LoopRule::kActive);
  EXPECT_EQ(fourth.metrics.front().second, 60'000);
  EXPECT_EQ(loops.autoscale(30).hpa.proposals->front(), 6);
  loops.load(20);
  EXPECT_EQ(loops.loop(60).metrics.front().second, 20'000);
  EXPECT_EQ(loops.state.failures["load"], 0);
}

TEST(FallbackOfTriggers, FollowsItsBehavior) {
  for (const auto& [behavior, milli] :
       {std::pair{"static", 60'000}, std::pair{"currentReplicas", 30'000}, std::pair{"currentReplicasIfHigher", 60'000},
        std::pair{"currentReplicasIfLower", 30'000}}) {
    Loops loops(
        fmt::format(R"("fallback": {{"failureThreshold": 0, "replicas": 6, "behavior": "{}"}}, {})", behavior, kLoad),
        3);
    loops.fail_load();
    EXPECT_EQ(loops.loop(0).metrics.front().second, milli) << behavior;
  }
}

TEST(Modifiers, OneMetricOfAllTriggersDecides) {
  const std::string triggers = R"("triggers": [
      {"type": "prometheus", "name": "a", "metadata": {"serverAddress": "s", "query": "q", "threshold": "10"}},
      {"type": "prometheus", "name": "b", "metadata": {"serverAddress": "s", "query": "q", "threshold": "10"}}])";
  Loops sum(R"("advanced": {"scalingModifiers": {"formula": "a + b", "target": "10", "activationTarget": "20"}}, )" +
                triggers,
            0);
  sum.now.readings["a"] = QueryReading{1, 10};
  sum.now.readings["b"] = QueryReading{1, 10};
  EXPECT_FALSE(sum.loop(0).active);
  sum.now.readings["b"] = QueryReading{1, 11};
  EXPECT_EQ(sum.loop(30).metrics.back(),
            (std::pair<std::string, std::optional<std::int64_t>>("composite-metric", 21'000)));
  EXPECT_EQ(sum.autoscale(30).hpa.proposals->size(), 1U);
  Loops first(R"("advanced": {"scalingModifiers": {"formula": "a ?? b", "target": "10"}},
      "fallback": {"failureThreshold": 0, "replicas": 7, "behavior": "scalingModifiers"}, )" +
                  triggers,
              3);
  first.now.readings["b"] = QueryReading{1, 45};
  EXPECT_EQ(first.loop(0).metrics.back().second, 45'000);
  first.now.readings["b"] = FailedReading{};
  EXPECT_EQ(first.loop(30).metrics.back().second, 70'000);  // all are nil: the replicas of the fallback
}

TEST(Pause, FreezesTheSizeAndForgetsTheWindows) {
  Loops loops(R"("cooldownPeriod": 30, )" + kJobs, 0);
  loops.jobs(20);
  EXPECT_EQ(loops.loop(0).replicas, 1);
  EXPECT_EQ(loops.autoscale(0).hpa.desired, 4);
  loops.annotations = *read_annotations(*Json::parse(R"({"autoscaling.keda.sh/paused": "yes"})"));
  loops.now.replicas = reconcile(loops.annotations, loops.now.replicas, loops.state);
  EXPECT_EQ(loops.loop(30).rule, LoopRule::kPaused);
  EXPECT_FALSE(loops.state.hpa.recommendations);
  loops.annotations = *read_annotations(
      *Json::parse(R"({"autoscaling.keda.sh/paused": "false", "autoscaling.keda.sh/paused-replicas": "7"})"));
  EXPECT_TRUE(loops.annotations.paused);
  EXPECT_EQ(reconcile(loops.annotations, loops.now.replicas, loops.state), 7);
}

TEST(Pause, OfOneDirectionActsOnBothLoops) {
  Loops loops(R"("cooldownPeriod": 0, )" + kJobs, 0);
  loops.annotations = *read_annotations(*Json::parse(R"({"autoscaling.keda.sh/paused-scale-out": "true"})"));
  loops.jobs(50);
  EXPECT_EQ(loops.loop(0).rule, LoopRule::kPausedScaleOut);
  loops.now.replicas = 2;
  EXPECT_EQ(loops.autoscale(0).hpa.rule, HpaRule::kDisabledUp);
  loops.annotations = *read_annotations(*Json::parse(R"({"autoscaling.keda.sh/paused-scale-in": "true"})"));
  loops.jobs(0);
  EXPECT_EQ(loops.loop(30).rule, LoopRule::kPausedScaleIn);
  EXPECT_EQ(loops.now.replicas, 2);
}

TEST(ForcedActivation, KeepsAReplicaWithoutAnActiveTrigger) {
  Loops loops(R"("cooldownPeriod": 0, )" + kJobs, 0);
  loops.annotations = *read_annotations(*Json::parse(R"({"autoscaling.keda.sh/force-activation": "true"})"));
  loops.jobs(0);
  EXPECT_EQ(loops.loop(0).rule, LoopRule::kForcedActivation);
  EXPECT_EQ(loops.loop(30).rule, LoopRule::kActive);
}

TEST(ResourceTriggers, AreMetricsOfTheAutoscalerAndAlwaysActive) {
  Loops loops(
      R"("minReplicaCount": 1, "triggers": [{"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}])",
      2);
  loops.now.resource = cpu(0, {900, 900});
  EXPECT_EQ(loops.loop(0).rule, LoopRule::kActive);
  EXPECT_EQ(loops.autoscale(0).hpa.desired, 4);
}

}  // namespace keda_test
}  // namespace qm::autoscaler::replicas
