// Replicas: which scaler decides, when this autoscaler acts, and what a fault does not touch.
#include "test/engine/replica_rig.hpp"

namespace qm::autoscaler::testing {
namespace replica_cases_test {

using std::chrono::seconds;

const std::string kCron = R"("maxReplicaCount": 60, "triggers": [{"type": "cron", "metadata":
    {"timezone": "UTC", "start": "0 0 * * *", "end": "59 23 * * *", "desiredReplicas": "49"}}])";
const std::string kQueueObject = R"("minReplicaCount": 0, "maxReplicaCount": 20, "cooldownPeriod": 60,
    "pollingInterval": 5, "triggers": [{"type": "aws-sqs-queue", "name": "work", "metadata":
    {"queueURL": "https://sqs/1/work", "awsRegion": "us-east-1", "queueLength": "10", "activationQueueLength": "0"}}])";

TEST(ReplicaCases, WithoutTheAnnotationDecisionsAreEvaluatedAndNothingIsChanged) {
  ReplicaRig rig;
  const auto id = rig.hpa("web", queue_spec(1, 10));
  rig.metric(id, "queue", 9000);
  rig.observe();
  EXPECT_EQ(rig.decision(id).wanted, 8) << "no more than twice the size in one sync";
  EXPECT_EQ(rig.decision(id).rule, "rate_up");
  ASSERT_EQ(rig.decision(id).metrics.size(), 1U);
  EXPECT_EQ(rig.decision(id).metrics[0].replicas, 9);
  EXPECT_EQ(rig.decision(id).metrics[0].ratio, 2.25);
  EXPECT_TRUE(rig.scales.empty());
  EXPECT_TRUE(rig.switches.empty());
}

TEST(ReplicaCases, NothingIsScaledBeforeTheOtherControllerIsSuspended) {
  ReplicaRig rig;
  rig.obedient = false;
  const auto id = rig.hpa("web", queue_spec(1, 10));
  rig.metric(id, "queue", 8000);
  rig.sample.mode = ReplicaMode::kScale;
  const auto first = rig.observe();
  ASSERT_EQ(rig.switches.size(), 1U);
  EXPECT_TRUE(rig.switches[0].suspend);
  rig.observe();
  rig.observe();
  rig.observe();
  EXPECT_EQ(rig.switches.size(), 1U) << "it is not requested again at once";
  rig.observe();
  EXPECT_EQ(rig.switches.size(), 2U) << "after a minute it is";
  EXPECT_TRUE(rig.scales.empty());
  rig.settle(first);
  rig.observe();
  ASSERT_EQ(rig.scales.size(), 1U);
  EXPECT_EQ(rig.scales[0].from, 4);
  EXPECT_EQ(rig.scales[0].to, 8);
}

TEST(ReplicaCases, ATargetIsNotEvaluatedBetweenAChangeAndItsOutcome) {
  ReplicaRig rig;
  const auto id = rig.hpa("web", queue_spec(1, 10));
  rig.take_over();
  rig.obedient = false;
  rig.metric(id, "queue", 8000);
  rig.observe();
  ASSERT_EQ(rig.scales.size(), 1U);
  rig.observe();
  rig.observe();
  EXPECT_EQ(rig.scales.size(), 1U);
  rig.step({ReplicasChanged{rig.target, rig.scales[0].number, "the target has 5 replicas and not 4"}});
  EXPECT_EQ(rig.row().error, "the target has 5 replicas and not 4");
  rig.sample.replicas = rig.sample.status_replicas = 5;
  rig.observe();
  ASSERT_EQ(rig.scales.size(), 2U);
  EXPECT_EQ(rig.scales[1].from, 5);
  EXPECT_GT(rig.scales[1].number, rig.scales[0].number);
}

TEST(ReplicaCases, TheLargestResultWithinTheTightestBoundsWins) {
  ReplicaRig rig;
  const auto small = rig.hpa("a", queue_spec(2, 12), 30);
  const auto large = rig.hpa("b", queue_spec(3, 9), 20);
  const auto queue = rig.scaled_object("q", kQueueObject, 10);
  rig.metric(small, "queue", 5000);
  rig.metric(large, "queue", 11000);
  rig.reading(queue, "work", replicas::QueueReading{60, 0, 0});
  rig.take_over();
  for (int i = 0; i < 4; ++i) rig.observe();
  EXPECT_EQ(rig.sample.replicas, 9) << "9 is the smallest maximum";
  EXPECT_EQ(rig.row().decided_by, large);
  EXPECT_EQ(rig.row().conflict,
            "3 scalers have this target: HorizontalPodAutoscaler team/a, HorizontalPodAutoscaler team/b, ScaledObject "
            "team/q; the largest result within 3 to 9 counts");
  rig.metric(small, "queue", 0);
  rig.metric(large, "queue", 0);
  rig.reading(queue, "work", replicas::QueueReading{});
  for (int i = 0; i < 40; ++i) rig.observe();
  EXPECT_EQ(rig.sample.replicas, 3) << "3 is the largest minimum";
}

TEST(ReplicaCases, ContradictingBoundsAreReportedAndTheUpperOneCounts) {
  ReplicaRig rig;
  const auto a = rig.hpa("a", queue_spec(6, 12), 30);
  const auto b = rig.hpa("b", queue_spec(1, 5), 20);
  rig.metric(a, "queue", 7000);
  rig.metric(b, "queue", 1000);
  rig.take_over();
  rig.observe();
  EXPECT_EQ(rig.sample.replicas, 5);
  EXPECT_NE(rig.row().conflict.find("no number is within all bounds: the lower is 6, the upper 5"), std::string::npos)
      << rig.row().conflict;
}

TEST(ReplicaCases, AStrictTargetIsScaledByItsOldestScaler) {
  ReplicaRig rig;
  const auto old = rig.hpa("z", queue_spec(1, 10), 100);
  const auto young = rig.hpa("a", queue_spec(1, 10), 10);
  rig.metric(old, "queue", 5000);
  rig.metric(young, "queue", 9000);
  rig.take_over(ReplicaMode::kStrict);
  for (int i = 0; i < 3; ++i) rig.observe();
  EXPECT_EQ(rig.sample.replicas, 5);
  EXPECT_NE(rig.row().conflict.find("it is strict, so only HorizontalPodAutoscaler team/z counts"), std::string::npos)
      << rig.row().conflict;
}

// S-227: a field report of a cron trigger whose 49 replicas did not happen at 45.
TEST(ReplicaCases, AScheduleAppliesWithoutToleranceUnlessTheOriginalsRulesAreChosen) {
  for (const bool exact : {true, false}) {
    Options options;
    options.replicas.exact_rules = exact;
    ReplicaRig rig(options);
    const auto id = rig.scaled_object("cron", kCron);
    rig.sample.replicas = rig.sample.status_replicas = 45;
    rig.take_over();
    rig.observe();
    EXPECT_EQ(rig.sample.replicas, exact ? 49 : 45);
    EXPECT_EQ(rig.decision(id).rule, exact ? "metric" : "tolerance");
  }
}

TEST(ReplicaCases, TheOriginalsRulesDecideWhileTheOriginalActs) {
  ReplicaRig rig;
  const auto id = rig.scaled_object("cron", kCron);
  rig.sample.replicas = rig.sample.status_replicas = 45;
  rig.observe();
  EXPECT_EQ(rig.decision(id).wanted, 45);
  EXPECT_EQ(rig.decision(id).rule, "tolerance");
}

// S-235
TEST(ReplicaCases, AQueueActivatesAtItsFirstMessageAndDeactivatesAfterTheCooldown) {
  ReplicaRig rig;
  const auto id = rig.scaled_object("q", kQueueObject);
  rig.sample.replicas = rig.sample.status_replicas = 0;
  rig.reading(id, "work", replicas::QueueReading{});
  rig.take_over();
  rig.observe(seconds(5));
  EXPECT_EQ(rig.sample.replicas, 0);
  EXPECT_EQ(rig.decision(id).rule, "inactive");
  rig.reading(id, "work", replicas::QueueReading{1, 0, 0});
  rig.observe(seconds(5));
  EXPECT_EQ(rig.sample.replicas, 1);
  EXPECT_EQ(rig.decision(id).rule, "activate");
  rig.reading(id, "work", replicas::QueueReading{});
  int zero_after = 0;
  while (rig.sample.replicas > 0 && zero_after < 200) {
    rig.observe(seconds(5));
    zero_after += 5;
  }
  EXPECT_EQ(zero_after, 65) << "60 s of cooldown are over at the first poll after them";
}

TEST(ReplicaCases, AScalerThatCannotBeEvaluatedGivesAllScalersBack) {
  ReplicaRig rig;
  const auto id = rig.hpa("web", queue_spec(1, 10));
  rig.metric(id, "queue", 8000);
  rig.take_over();
  rig.switches.clear();
  rig.scaled_object("mail", R"("triggers": [{"type": "imap", "metadata": {}}])");
  rig.observe();
  ASSERT_EQ(rig.switches.size(), 1U);
  EXPECT_EQ(rig.switches[0].scaler, id);
  EXPECT_FALSE(rig.switches[0].suspend);
  EXPECT_TRUE(rig.scales.empty());
}

TEST(ReplicaCases, TwoMetricsOfOneNameAreRefusedBecauseTheirReadingsHaveNoSelector) {
  ReplicaRig rig;
  const std::string metric =
      R"({"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "1"}}})";
  const auto id = rig.hpa("web", R"("maxReplicas": 5, "metrics": [)" + metric + "," + metric + "]");
  const auto* row = rig.script.engine().tables().replicas.scalers.find(id);
  ASSERT_NE(row, nullptr);
  EXPECT_NE(row->refused.find("two metrics of one source with the name queue"), std::string::npos) << row->refused;
}

TEST(ReplicaCases, WithoutTheAnnotationAndWithoutTheTargetScalersAreGivenBack) {
  for (const bool deleted : {false, true}) {
    ReplicaRig rig;
    rig.hpa("web", queue_spec(1, 10));
    rig.take_over();
    rig.switches.clear();
    rig.sample.mode = deleted ? ReplicaMode::kScale : ReplicaMode::kObserve;
    rig.sample.found = !deleted;
    rig.observe();
    rig.observe(seconds(60));
    ASSERT_EQ(rig.switches.size(), 1U) << deleted;
    EXPECT_FALSE(rig.switches[0].suspend);
  }
}

TEST(ReplicaCases, TheAutoscalerThatKedaCreatedMustBeGoneFirst) {
  ReplicaRig rig;
  const auto id = rig.scaled_object("q", kQueueObject);
  rig.generated("keda-hpa-q");
  rig.reading(id, "work", replicas::QueueReading{90, 0, 0});
  rig.take_over();
  rig.observe();
  EXPECT_TRUE(rig.scales.empty());
  EXPECT_EQ(rig.row().conflict, "") << "it is no second scaler";
  rig.step({ScalerUpdated{{ScalerKind::kHpa, "team", "keda-hpa-q"}, {}, true}});
  rig.observe();
  ASSERT_EQ(rig.scales.size(), 1U);
  EXPECT_EQ(rig.scales[0].to, 8);
}

TEST(ReplicaCases, AnInvalidMetricHoldsTheSize) {
  ReplicaRig rig;
  const auto a = rig.hpa("a", queue_spec(1, 10), 20);
  const auto b = rig.hpa("b", queue_spec(1, 10), 10);
  rig.metric(a, "queue", 1000);
  rig.take_over();
  for (int i = 0; i < 30; ++i) rig.observe();
  EXPECT_EQ(rig.sample.replicas, 4);
  EXPECT_EQ(rig.decision(b).rule, "all_metrics_failed");
  EXPECT_EQ(rig.decision(b).metrics.at(0).error, "the metric queue failed");
}

TEST(ReplicaCases, AnEvaluationNeedsANewSampleAndWakesWhenItIsDue) {
  ReplicaRig rig;
  const auto id = rig.hpa("web", queue_spec(1, 10));
  rig.metric(id, "queue", 4000);
  rig.observe();
  const Instant first = rig.decision(id).at;
  const auto early = rig.observe(seconds(14));
  EXPECT_EQ(rig.decision(id).at, first) << "the next sync is not due";
  EXPECT_EQ(early.wake_at, first + seconds(15));
  rig.script.advance(seconds(1));
  rig.step({Tick{}});
  EXPECT_EQ(rig.decision(id).at, first + seconds(15));
  rig.script.advance(seconds(15));
  const auto stale = rig.step({Tick{}});
  EXPECT_EQ(rig.decision(id).at, first + seconds(15)) << "the sample was used";
  EXPECT_FALSE(stale.wake_at);
}

TEST(ReplicaCases, AFaultEndsOneEvaluationAndNotTheStep) {
  Options options;
  options.replicas.probe = [](const ScalerId& id) {
    if (id.name == "bad") throw std::runtime_error("planted");
  };
  ReplicaRig rig(options);
  const auto bad = rig.hpa("bad", queue_spec(1, 10), 20);
  const auto good = rig.hpa("good", queue_spec(1, 10), 10);
  rig.metric(bad, "queue", 8000);
  rig.metric(good, "queue", 8000);
  rig.take_over();
  // Demand and the sample come in one step.
  Pool pool;
  pool.name = "p";
  pool.instance_types = {"a8"};
  pool.markets = {Market::kOnDemand};
  DemandUpdated demand;
  demand.items.push_back({attempt_id("w/1"), {pod_set(1, 8)}, 0, rig.script.now()});
  rig.script.advance(seconds(15));
  rig.sample.at = rig.script.now();
  const auto out = rig.step({rig.sample, PoolsApplied{{pool}}, demand});
  EXPECT_EQ(out.launches.size(), 1U) << "capacity is launched";
  EXPECT_TRUE(out.replicas.scales.empty());
  EXPECT_EQ(rig.decision(bad).fault, "planted");
  EXPECT_EQ(rig.row().error, "HorizontalPodAutoscaler team/bad cannot be evaluated: planted");
  EXPECT_EQ(rig.decision(good).wanted, 8) << "the other scaler is evaluated";
}

TEST(ReplicaCases, AnObjectOfTheSameNameIsAnotherScaler) {
  ReplicaRig rig;
  const auto id = rig.hpa("web", queue_spec(1, 10));
  rig.metric(id, "queue", 8000);
  rig.observe();
  ScalerRow row = rig.rows[id];
  row.uid = "another";
  rig.step({ScalerUpdated{id, row}});
  EXPECT_EQ(rig.script.engine().tables().replicas.decisions.find(id), nullptr);
  rig.step({ScalersListed{ScalerKind::kHpa, {}}});
  EXPECT_EQ(rig.script.engine().tables().replicas.scalers.size(), 0U);
  EXPECT_EQ(rig.script.engine().tables().replicas.targets.size(), 0U);
}

}  // namespace replica_cases_test
}  // namespace qm::autoscaler::testing
