#include "qm/placement/disruption/defrag_lifecycle.hpp"

#include <gtest/gtest.h>

namespace qm::placement::disruption {
namespace {

using namespace std::chrono_literals;

constexpr Instant kRunning{100'000s};
const DefragOptions kBudget{.hourly = 2};
const AttemptId kA{WorkloadUid("a"), 1}, kB{WorkloadUid("b"), 1};

DefragRun run_of(std::vector<std::vector<AttemptId>> steps) {
  DefragRun run;
  for (const auto& moves : steps) {
    auto& step = run.steps.emplace_back();
    for (const AttemptId& id : moves) step.moves.push_back({id, {}, 0, 0});
  }
  return run;
}
RunObserved run_seen(std::set<AttemptId> holding, bool valid = true) {
  return {false, std::move(holding), 0, [valid](DefragStep&) { return valid; }};
}
std::string run_text(const RunStep& step) {
  if (const auto* end = std::get_if<EndRun>(&step.action)) return "end " + end->why;
  if (std::holds_alternative<Migrate>(step.action)) return "migrate";
  return std::holds_alternative<NextStep>(step.action) ? "next" : "wait";
}

TEST(DefragLifecycle, OneMigrationAfterTheOther) {
  auto observed = run_seen({kA, kB});
  auto step = advance_run(run_of({{kA, kB}}), observed, kRunning, kBudget);
  EXPECT_EQ(run_text(step), "migrate");
  EXPECT_EQ(step.run.asked, 1);
  EXPECT_EQ(step.run.hour, kRunning);
  observed.migrating = true;
  EXPECT_EQ(run_text(advance_run(step.run, observed, kRunning + 1s, kBudget)), "wait");
}

TEST(DefragLifecycle, TheBudgetIsPerHour) {
  DefragRun run = run_of({{kA}});
  run.hour = kRunning;
  run.asked = 2;
  EXPECT_EQ(run_text(advance_run(run, run_seen({kA}), kRunning + 3599s, kBudget)), "end Budget");
  const auto later = advance_run(run, run_seen({kA}), kRunning + 3600s, kBudget);
  EXPECT_EQ(run_text(later), "migrate");
  EXPECT_EQ(later.run.asked, 1);
  EXPECT_EQ(later.run.hour, kRunning + 3600s);
  EXPECT_EQ(recent_migrations(run, kRunning + 3599s), 2);
  EXPECT_EQ(recent_migrations(run, kRunning + 3600s), 0);
}

TEST(DefragLifecycle, AStepThatIsNotValidAnyMoreEndsThePlan) {
  const auto step = advance_run(run_of({{kA}, {kB}}), run_seen({kA}, false), kRunning, kBudget);
  EXPECT_EQ(run_text(step), "end Stale");
  EXPECT_EQ(step.run.asked, 0);
}

TEST(DefragLifecycle, AttemptsThatEndedNeedNoMigration) {
  auto step = advance_run(run_of({{kA, kB}}), run_seen({kB}), kRunning, kBudget);
  EXPECT_EQ(run_text(step), "migrate");
  ASSERT_EQ(step.run.steps.front().moves.size(), 1u);
  EXPECT_EQ(step.run.steps.front().moves.front().id, kB);
}

TEST(DefragLifecycle, AnEmptyStepIsDoneAndItsNodesAreCounted) {
  auto observed = run_seen({});
  observed.reclaimed = 2;
  auto step = advance_run(run_of({{kA}, {kB}}), observed, kRunning, kBudget);
  EXPECT_EQ(run_text(step), "next");
  EXPECT_EQ(step.run.reclaimed, 2);
  EXPECT_EQ(step.run.steps.size(), 1u);
  step = advance_run(run_of({{kA}}), observed, kRunning, kBudget);
  EXPECT_EQ(run_text(step), "end Done");
  EXPECT_EQ(step.run.reclaimed, 2);
  EXPECT_FALSE(step.run.is_active());
}

}  // namespace
}  // namespace qm::placement::disruption
