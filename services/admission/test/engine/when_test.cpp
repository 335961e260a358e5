// Estimates of when a workload starts, from rows alone; and what is learned for them.
#include "qm/admission/queries/when.hpp"

#include "qm/admission/forecasts.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace qm::admission {
namespace when_test {

using namespace std::chrono_literals;
using forecast::LifeTable;

const std::string kGpu(words::kGpuResource);

ApplyObjects queue_of(const std::string& name, std::int64_t gpus) {
  ApplyObjects out;
  ClusterQueue queue;
  queue.name = QueueName(name);
  queue.groups = {{{kGpu}, {{FlavorName("h100"), {{kGpu, Quota{gpus * 1000, {}, {}}}}}}}};
  out.cluster_queues.push_back(queue);
  out.local_queues.push_back({Namespace("team"), name, QueueName(name), StopPolicy::kNone, {}});
  return out;
}

struct WhenTest : ::testing::Test {
  Engine engine;
  Instant now = from_micros(1'800'000'000'000'000);

  void SetUp() override {
    ApplyObjects flavors;
    flavors.flavors.push_back({FlavorName("h100"), {}, {}, {}, {}});
    step({flavors, queue_of("q", 8)});
  }
  void step(std::vector<Command> batch) {
    (void)engine.step(batch, now);
    engine.commit();
    engine.check_laws();
  }
  JobUpdated job(const std::string& uid, std::int64_t gpus, Duration limit = 1h) const {
    JobUpdated out;
    out.spec.uid = WorkloadUid(uid);
    out.spec.ns = Namespace("team");
    out.spec.name = uid;
    out.spec.queue = "q";
    out.spec.team = Team("team");
    out.spec.submitted = now;
    out.max_execution = limit;
    PodSet pods;
    pods.shape.gpu.whole = gpus;
    out.spec.pod_sets.push_back(pods);
    return out;
  }
  void place(const std::string& uid) { step({PlacementUpdated{WorkloadUid(uid), 1, Answer::kReserved, "r", {}, {}}}); }
  void finish(JobUpdated one) {
    one.complete = true;
    step({std::move(one)});
  }
  When ask(const std::string& uid) {
    const auto before = engine.digest();
    const auto found = when(engine.tables(), engine.options(), WorkloadUid(uid), now);
    EXPECT_EQ(engine.digest(), before);
    EXPECT_TRUE(found) << uid;
    return found.value_or(When{});
  }
  std::string no(const std::string& uid) {
    const auto cause = ask(uid).unknown;
    return cause ? cause->code : "";
  }
  /// As if thousands of equal workloads had run for ten hours: a workload with a lower limit runs up to its limit.
  void all_run_long() {
    LifeTable lived(forecast::RunTimes::Settings().half_life);
    for (int i = 0; i < 4000; ++i) lived.add(10h, LifeTable::End::kEnded, now);
    for (const char* stem : {"runs", "first", "second"})
      engine.tables_for_load().run_times.restore({"team", "8 gpu", stem}, lived);
    engine.loaded();
  }
  double learned() const {
    double all = 0;
    for (const auto& [job_class, table] : engine.tables().run_times) all += table.weight(now);
    return all;
  }
};

TEST_F(WhenTest, KnownQueueStartsAtExactInstant) {
  all_run_long();
  step({job("runs", 8)});
  place("runs");
  const Instant began = now;
  now += 10min;
  step({job("first", 8)});
  now += 10min;
  step({job("second", 8)});
  const auto first = ask("first"), second = ask("second");
  ASSERT_FALSE(first.unknown) << first.unknown->message;
  EXPECT_EQ(*first.middle, began + 1h);
  EXPECT_EQ(*second.middle, began + 2h);
  // The correction starts with one minute at each end.
  EXPECT_EQ(*first.low, began + 59min);
  EXPECT_EQ(*first.high, began + 61min);
  EXPECT_EQ(first.started, first.futures);
  ASSERT_EQ(first.waits_for.size(), 1U);
  EXPECT_EQ(first.waits_for[0].uid.value(), "runs");
  ASSERT_GE(second.waits_for.size(), 1U);
  EXPECT_EQ(second.waits_for[0].uid.value(), "first");
  EXPECT_EQ(first.evidence.of, (forecast::JobClass{"team", "8 gpu", "first"}));
  EXPECT_NEAR(first.evidence.lives, 4000, 100);
  EXPECT_EQ(first.declared.deadline, Duration(1h));

  // The workload starts as estimated.
  now = began + 1h;
  finish(job("runs", 8));
  EXPECT_EQ(engine.find(WorkloadUid("first"))->quota_reserved, *first.middle);
}

TEST_F(WhenTest, RowsAloneGiveTheAnswer) {
  step({job("runs", 8), job("other", 4, 0s)});
  place("runs");
  now += 30min;
  finish(job("runs", 8));
  place("other");
  step({job("one", 8, 0s), job("two", 4, 2h), job("three", 8, 0s)});
  const auto before = ask("three");
  ASSERT_FALSE(before.unknown);
  Engine copy;
  const auto take = [](const auto& from, auto& to) {
    for (const auto& [key, row] : from) to.restore(key, row);
  };
  auto& to = copy.tables_for_load();
  take(engine.tables().cluster_queues, to.cluster_queues);
  take(engine.tables().local_queues, to.local_queues);
  take(engine.tables().flavors, to.flavors);
  take(engine.tables().workloads, to.workloads);
  take(engine.tables().run_times, to.run_times);
  copy.loaded();
  const auto after = when(copy.tables(), copy.options(), WorkloadUid("three"), now);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->low, before.low);
  EXPECT_EQ(after->middle, before.middle);
  EXPECT_EQ(after->high, before.high);
  EXPECT_EQ(after->started, before.started);
  EXPECT_EQ(after->record, before.record);
  EXPECT_LT(*before.low, *before.high);
}

TEST_F(WhenTest, ReportsWhyThereIsNoForecast) {
  step({job("runs", 8)});
  EXPECT_EQ(no("runs"), "AlreadyAdmitted");
  place("runs");
  EXPECT_EQ(no("runs"), "AlreadyAdmitted");
  auto lost = job("lost", 1);
  lost.spec.queue = "nosuch";
  auto low = job("low", 1);
  low.spec.priority_class = "nosuch";
  step({job("waits", 4), job("large", 9), lost, low, SetActive{WorkloadUid("waits"), {}, {}, "a holiday", false}});
  EXPECT_EQ(no("waits"), "Inactive");
  EXPECT_NE(ask("waits").unknown->message.find("a holiday"), std::string::npos);
  EXPECT_EQ(no("large"), "NeverFits");
  EXPECT_EQ(no("lost"), "QueueUnknown");
  EXPECT_EQ(no("low"), "PriorityClassUnknown");
  auto stopped = queue_of("q", 8);
  stopped.cluster_queues[0].stop = StopPolicy::kHold;
  step({stopped, SetActive{WorkloadUid("waits"), {}, {}, "", true}});
  EXPECT_EQ(no("waits"), "QueueStopped");
  step({queue_of("q", 8)});
  EXPECT_EQ(no("waits"), "");
  Workload poor = *engine.find(WorkloadUid("waits"));
  engine.tables_for_load().workloads.restore(poor.spec.uid, [&] {
    Workload out = poor;
    out.budget = "small";
    return out;
  }());
  engine.loaded();
  EXPECT_EQ(no("waits"), "BudgetExhausted");
  engine.tables_for_load().workloads.restore(poor.spec.uid, poor);
  engine.loaded();
  finish(job("runs", 8));
  EXPECT_EQ(no("runs"), "Ended");
  EXPECT_FALSE(when(engine.tables(), engine.options(), WorkloadUid("ghost"), now));
}

TEST_F(WhenTest, VolcanoQueueHasNoForecast) {
  ApplyObjects pool;
  Cohort cohort;
  cohort.name = "pool";
  cohort.sharing = volcano::sharing_of("proportion");
  cohort.groups = {{{kGpu}, {{FlavorName("h100"), {{kGpu, Quota{8000, {}, {}}}}}}}};
  pool.cohorts.push_back(cohort);
  ClusterQueue queue;
  queue.name = QueueName("v");
  queue.volcano.emplace().rules.name = "v";
  pool.cluster_queues.push_back(queue);
  pool.local_queues.push_back({Namespace("team"), "v", QueueName("v"), StopPolicy::kNone, {}});
  step({pool});
  auto one = job("one", 8), two = job("two", 8);
  one.spec.queue = two.spec.queue = "v";
  step({one, two});
  const bool first_waits = engine.find(WorkloadUid("one"))->phase == Phase::kPending;
  EXPECT_EQ(no(first_waits ? "one" : "two"), "VolcanoRules");
}

TEST_F(WhenTest, LearnsFromFinishedAndCutOffRuns) {
  auto promised = job("train-1", 3, 0s);
  promised.spec.expected_runtime = 1h;
  step({promised});
  place("train-1");
  EXPECT_EQ(learned(), 0);
  now += 2h;
  finish(promised);
  ASSERT_EQ(engine.tables().run_times.size(), 2U);
  const auto& table = *engine.tables().run_times.find({"team", "4 gpu", "train"});
  EXPECT_EQ(table.weight(now), 1);
  EXPECT_TRUE(engine.tables().run_times.contains({"team", forecast::JobClass::kPromises, ""}));

  // It never ran, so nothing is learned.
  step({job("never", 3), Cancel{WorkloadUid("never"), {}, {}, "no"}});
  EXPECT_EQ(learned(), 2);
  // It ran and is requeued: its run time counts as censored.
  step({job("train-2", 3)});
  place("train-2");
  now += 1h;
  step({EvictionRequested{WorkloadUid("train-2"), 1, "Spot", "", {}, {}, "autoscaler"}});
  step({PlacementUpdated{WorkloadUid("train-2"), 1, Answer::kReleased, {}, {}, {}}});
  double ended = 0;
  for (const auto& span : engine.tables().run_times.find({"team", "4 gpu", "train"})->spans()) ended += span.ended;
  EXPECT_NEAR(ended, 1, 0.01);
  EXPECT_NEAR(learned(), 3, 0.01);
  step({Cancel{WorkloadUid("train-2"), {}, {}, "no"}});

  // What a step learned is rolled back with it.
  step({job("train-3", 3)});
  place("train-3");
  now += 1h;
  const auto before = engine.digest();
  auto ends = job("train-3", 3);
  ends.complete = true;
  (void)engine.step(std::vector<Command>{ends}, now);
  EXPECT_NE(engine.digest(), before);
  engine.undo();
  EXPECT_EQ(engine.digest(), before);
}

TEST_F(WhenTest, RunTimeRowsAreBoundedAndComplete) {
  constexpr int kKinds = 1100;
  for (int i = 0; i < kKinds; ++i) {
    std::string name;
    for (int rest = i, k = 0; k < 4; ++k, rest /= 16) name += static_cast<char>('g' + rest % 16);
    auto one = job(name, 1);
    auto over = one;
    over.complete = true;
    for (const Command& command :
         {Command(one), Command(PlacementUpdated{WorkloadUid(name), 1, Answer::kReserved, "r", {}, {}}), Command(over)}) {
      (void)engine.step(std::vector<Command>{command}, now);
      engine.commit();
      now += 500ms;
    }
  }
  EXPECT_EQ(engine.tables().run_times.size(), 1024U);
  EXPECT_TRUE(engine.tables().run_times.contains({"team", "1 gpu", ""}));
  EXPECT_NEAR(learned(), kKinds, 2);
}

TEST_F(WhenTest, ForecastsAreScoredAgainstStarts) {
  step({job("runs", 8), job("waits", 8), job("waits-too", 8)});
  place("runs");
  now += 1min;
  const auto estimate = ask("waits");
  ASSERT_TRUE(estimate.record);
  step({EstimatePublished{WorkloadUid("waits"), *estimate.record}});
  ASSERT_TRUE(engine.tables().estimates.contains(WorkloadUid("waits")));
  // Later estimates for the same pending attempt do not count.
  auto second = *estimate.record;
  second.at = now + 1min;
  step({EstimatePublished{WorkloadUid("waits"), second}});
  EXPECT_EQ(engine.tables().estimates.find(WorkloadUid("waits"))->at, now);
  EXPECT_EQ(engine.tables().corrections.size(), 0U);

  // It starts long after the upper end that was published: the next intervals are wider on that side.
  now += estimate.record->corrected.high + 1h;
  finish(job("runs", 8));
  place("waits");
  EXPECT_FALSE(engine.tables().estimates.contains(WorkloadUid("waits")));
  const auto& raw = estimate.record->raw;
  const auto wider = start_correction(engine.tables()).corrected(raw, estimate.record->group);
  EXPECT_GT(wider.high, estimate.record->corrected.high);
  EXPECT_GT(wider.low, estimate.record->corrected.low) << "no end was missed";

  // The upper end has passed before the start is known: the next estimate takes that into account.
  auto unlucky = *estimate.record;
  unlucky.at = now;
  step({EstimatePublished{WorkloadUid("waits-too"), unlucky}});
  EXPECT_TRUE(engine.tables().estimates.contains(WorkloadUid("waits-too")));
  now += unlucky.corrected.high + 1h;
  step({job("last", 8)});
  step({EstimatePublished{WorkloadUid("last"), *estimate.record}});
  EXPECT_GT(start_correction(engine.tables()).corrected(raw, unlucky.group).high, wider.high);
  EXPECT_TRUE(engine.tables().estimates.find(WorkloadUid("waits-too"))->high_known);
  step({Cancel{WorkloadUid("waits-too"), {}, {}, "no"}});
  EXPECT_FALSE(engine.tables().estimates.contains(WorkloadUid("waits-too")));
}

}  // namespace when_test
}  // namespace qm::admission
