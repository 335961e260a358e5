// Defragmentation: the moves that are requested, one after the other, and the outcomes of the plan.
#include "test/engine/preemption_fixture.hpp"

#include <gtest/gtest.h>

namespace qm::placement::testing {
namespace defrag_executor_test {

Options defrag() {
  Options options;
  options.hold = std::chrono::hours(1'000);  // no controller creates pods here
  options.defrag.on = true;
  options.defrag.every = std::chrono::seconds(250);
  options.defrag.max_lost_gpu_seconds = 10'000;
  return options;
}

class DefragExecutor : public ::testing::Test {
 protected:
  DefragExecutor() : DefragExecutor(defrag()) {}
  explicit DefragExecutor(const Options& options) : script(options) {
    for (const char* node : {"a", "b", "c", "d"}) play(fmt::format("node {0} gpus=8 label=host={0}", node));
    play("synced");
  }
  void play(const std::string& line) { (void)script.run(line); }
  /// The proposal events that a line produces.
  [[nodiscard]] std::string published(const std::string& line) { return proposals_in(script.run(line)); }
  /// Places a job of four GPUs on each of two nodes, each next to a finished one; the job on a runs 100 s longer.
  void half_empty() {
    play("want a1/1 1x4 | want a2/1 1x4");
    play("phase a1/1 admitted | phase a2/1 admitted");
    play("tick 100");
    play("want b1/1 1x4 | want b2/1 1x4");
    play("phase b1/1 admitted | phase b2/1 admitted");
    play("tick 100");
    play("phase a2/1 finished | phase b2/1 finished");
  }
  /// Two jobs of two GPUs on a, and one of four on b that must stay.
  void two_on_a() {
    play("want a1/1 1x2 | want a2/1 1x2 | want a3/1 1x4");
    play("phase a1/1 admitted | phase a2/1 admitted | phase a3/1 admitted");
    play("want b1/1 1x4");
    play("phase b1/1 admitted min-runtime=100000");
    play("tick 200");
    play("phase a3/1 finished");
  }
  /// Admission evicts the job, and it is retried at once.
  void evict(const std::string& job) {
    play(fmt::format("answer {}/1 accepted evicting", job));
    play(fmt::format("phase {}/2 pending", job));
    play(fmt::format("phase {}/2 quota-reserved", job));
  }
  [[nodiscard]] std::string nodes_of(const std::string& uid, int attempt) const {
    const Assignment* row = engine.tables().assignments.find({WorkloadUid(uid), attempt});
    if (row == nullptr) return "none";
    std::string out(name_of(row->state));
    for (const Member& member : row->members) out += " " + member.node.value();
    return out;
  }
  [[nodiscard]] const DefragRun& run() const { return *engine.tables().defrag_run.find(0); }

  Script script;
  const Engine& engine = script.engine();
};

TEST_F(DefragExecutor, PlannedGainIsRealized) {
  half_empty();
  EXPECT_EQ(published("tick 49"), "");
  EXPECT_EQ(published("tick 1"), "propose 1 b1/1 $3.67: b1/1")
      << "150 s of work and two minutes of restart, on four GPUs";
  EXPECT_EQ(run().nodes, 1);
  EXPECT_EQ(run().gpus, 8);
  EXPECT_EQ(run().moves, 1);
  EXPECT_EQ(run().gpu_ms, 4 * 270'000);
  EXPECT_EQ(run().lost_micro_usd, 4 * 270 * 3'400);
  evict("b1");
  EXPECT_EQ(nodes_of("b1", 1), "released b");
  EXPECT_EQ(nodes_of("b1", 2), "reserved a") << "not on b again";
  EXPECT_EQ(run().reclaimed, 1);
  EXPECT_EQ(run().last, "Done");
  EXPECT_FALSE(run().is_active());
  EXPECT_EQ(engine.tables().proposals.size(), 0U);
  EXPECT_EQ(published("tick 250"), "") << "no more nodes can be reclaimed";
  EXPECT_EQ(run().last, "Done");
}

TEST_F(DefragExecutor, NextMigrationStartsWhenPreviousIsPlaced) {
  two_on_a();
  EXPECT_EQ(published("tick 50"), "propose 1 a1/1 $2.52: a1/1");
  EXPECT_EQ(run().moves, 2);
  EXPECT_EQ(published("answer a1/1 accepted evicting"), "");
  EXPECT_EQ(published("phase a1/2 pending"), "");
  EXPECT_EQ(published("tick 60"), "");
  EXPECT_EQ(published("phase a1/2 quota-reserved"), "withdraw 1 a1/1\npropose 2 a2/1 $2.92: a2/1");
  EXPECT_EQ(nodes_of("a1", 2), "reserved b");
  evict("a2");
  EXPECT_EQ(nodes_of("a2", 2), "reserved b");
  EXPECT_EQ(run().reclaimed, 1);
  EXPECT_EQ(run().last, "Done");
}

TEST_F(DefragExecutor, FinishedWorkloadIsNotMigrated) {
  two_on_a();
  play("tick 50");
  play("phase a2/1 finished");
  evict("a1");
  EXPECT_EQ(run().reclaimed, 1);
  EXPECT_EQ(run().last, "Done");
}

TEST_F(DefragExecutor, RefusedMigrationIsNotRepeated) {
  half_empty();
  play("tick 50");
  EXPECT_EQ(published("answer b1/1 OtherWorkloadsPending admitted"), "withdraw 1 b1/1");
  EXPECT_EQ(run().last, "OtherWorkloadsPending");
  EXPECT_EQ(published("tick 250"), "propose 2 a1/1 $8.43: a1/1") << "a is reclaimed, and b1 stays where it is";
}

TEST_F(DefragExecutor, ReservedTargetIsNotGivenToOthers) {
  half_empty();
  play("tick 50");
  play("want c1/1 1x2");
  EXPECT_EQ(nodes_of("c1", 1).substr(0, 10), "reserved c")
      << "neither on the target of b1 nor on the node that it leaves";
}

TEST_F(DefragExecutor, PlanYieldsToPendingWorkload) {
  half_empty();
  play("tick 50");
  play("want c1/1 1x8 | want c2/1 1x8");
  EXPECT_EQ(published("want b3/1 1x2"), "withdraw 1 b1/1");
  EXPECT_EQ(nodes_of("b3", 1).substr(0, 8), "reserved");
  EXPECT_EQ(run().last, "CapacityUsedByOthers");
}

TEST_F(DefragExecutor, EvictedWorkloadKeepsItsTarget) {
  half_empty();
  play("tick 50");
  play("answer b1/1 accepted evicting");
  play("want c1/1 1x8 | want c2/1 1x8");
  play("want all/1 1x8");
  EXPECT_EQ(nodes_of("all", 1), "reserved b") << "b is free now";
  play("want half/1 1x4");
  EXPECT_EQ(nodes_of("half", 1), "short");
  play("phase b1/2 pending | phase b1/2 quota-reserved");
  EXPECT_EQ(nodes_of("b1", 2), "reserved a");
}

TEST_F(DefragExecutor, WithoutAnswerIsPublishedThreeTimesThenPlanEnds) {
  half_empty();
  EXPECT_EQ(published("tick 50"), "propose 1 b1/1 $3.67: b1/1");
  EXPECT_EQ(published("tick 30"), "propose 1 b1/1 $3.67: b1/1");
  EXPECT_EQ(published("tick 30"), "propose 1 b1/1 $3.67: b1/1");
  EXPECT_EQ(published("tick 30"), "withdraw 1 b1/1");
  EXPECT_EQ(run().last, "Unanswered");
}

TEST_F(DefragExecutor, InvalidStepIsWithdrawn) {
  two_on_a();
  play("tick 50");
  play("answer a1/1 accepted evicting");
  play("drain b");
  EXPECT_EQ(published("phase a1/2 pending | phase a1/2 quota-reserved"), "withdraw 1 a1/1");
  EXPECT_EQ(nodes_of("a1", 2).substr(0, 8), "reserved") << "elsewhere";
  EXPECT_EQ(run().last, "Elsewhere");
}

TEST_F(DefragExecutor, LateWorkloadLosesItsTarget) {
  half_empty();
  play("tick 50");
  play("answer b1/1 accepted evicting");
  play("phase b1/2 pending");
  EXPECT_EQ(published("tick 599"), "");
  EXPECT_EQ(published("tick 1"), "withdraw 1 b1/1");
  EXPECT_EQ(run().last, "Late");
}

TEST_F(DefragExecutor, CanceledMigrationEndsPlan) {
  half_empty();
  play("tick 50");
  EXPECT_EQ(published("phase b1/1 cancelled"), "withdraw 1 b1/1");
  EXPECT_EQ(run().last, "Over");
}

TEST_F(DefragExecutor, NextAttemptMayArriveBeforeAnswer) {
  half_empty();
  play("tick 50");
  play("phase b1/2 pending");
  play("phase b1/2 quota-reserved");
  EXPECT_EQ(nodes_of("b1", 2), "reserved a");
  EXPECT_EQ(run().last, "Done");
}

TEST_F(DefragExecutor, RestartContinuesPlanAndDisablingDropsIt) {
  half_empty();
  play("tick 50");
  const auto same = read_back(engine, defrag());
  EXPECT_EQ(same->digest(), engine.digest());
  same->audit();
  const auto off = read_back(engine, Options());
  const auto output = off->step(std::vector<Command>{Tick{}}, script.now());
  EXPECT_EQ(render(output, false), std::vector<std::string>{"withdraw 1 b1/1"});
  EXPECT_EQ(off->tables().defrag_run.find(0)->last, "Disabled");
  off->audit();
}

class DefragMinimumGain : public DefragExecutor {
 protected:
  DefragMinimumGain() : DefragExecutor(much()) {}
  static Options much() {
    Options options = defrag();
    options.defrag.least_gpus = 5;
    return options;
  }
};

TEST_F(DefragMinimumGain, TooSmallGainIsRejected) {
  two_on_a();
  EXPECT_EQ(published("tick 50"), "") << "eight reclaimed GPUs for two that migrate";
  EXPECT_EQ(run().last, "NoDefragmentationGain");
}

class DefragCostLimit : public DefragExecutor {
 protected:
  DefragCostLimit() : DefragExecutor(cost_limit()) {}
  static Options cost_limit() {
    Options options = defrag();
    options.defrag.max_lost_gpu_seconds = 4 * 270 / 8 - 1;
    return options;
  }
};

TEST_F(DefragCostLimit, TooExpensivePlanIsRejected) {
  half_empty();
  EXPECT_EQ(published("tick 50"), "");
  EXPECT_EQ(run().last, "NoDefragmentationGain");
}

class DefragHourlyBudget : public DefragExecutor {
 protected:
  DefragHourlyBudget() : DefragExecutor(one()) {}
  static Options one() {
    Options options = defrag();
    options.defrag.hourly = 1;
    return options;
  }
};

TEST_F(DefragHourlyBudget, StepBeyondBudgetIsNotStarted) {
  two_on_a();
  EXPECT_EQ(published("tick 50"), "");
  play("phase a2/1 finished");
  EXPECT_EQ(published("tick 250"), "propose 1 a1/1 $4.22: a1/1");
  evict("a1");
  EXPECT_EQ(run().reclaimed, 1);
  // Another half-empty pair; the budget of one move for this hour is used.
  play("want c1/1 1x6 | phase c1/1 admitted");
  play("want c2/1 1x2 | phase c2/1 admitted");
  play("phase c1/1 finished");
  EXPECT_EQ(published("tick 250"), "");
}

TEST(DefragDisabled, NothingMigratesByDefault) {
  Script script;
  for (const char* line : {"node a gpus=8", "node b gpus=8", "synced", "want a1/1 1x4 | want a2/1 1x4",
                           "phase a1/1 admitted | phase a2/1 admitted", "want b1/1 1x4", "phase b1/1 admitted",
                           "phase a2/1 finished", "tick 100000"})
    (void)script.run(line);
  EXPECT_EQ(script.engine().tables().defrag_run.size(), 0U);
  EXPECT_EQ(script.engine().tables().proposals.size(), 0U);
}

}  // namespace defrag_executor_test
}  // namespace qm::placement::testing
