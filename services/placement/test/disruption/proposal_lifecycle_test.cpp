#include "qm/placement/disruption/proposal_lifecycle.hpp"

#include <gtest/gtest.h>

namespace qm::placement::disruption {
namespace {

using namespace std::chrono_literals;

constexpr Instant kPublished{1000s};
const PreemptionOptions kTimes{.answer = 30s, .again = 600s, .max_publications = 3};
const DefragOptions kDefrag{.settle = 600s};

Proposal proposed(std::int32_t publications = 1) {
  Proposal row;
  row.state = ProposalState::kProposed;
  row.attempt = 4;
  row.published_at = kPublished;
  row.publish_count = publications;
  row.victims.push_back({{WorkloadUid("victim"), 1}, 60'000, {}});
  row.places.push_back({0, 0, NodeName("n1"), {}});
  return row;
}
Proposal accepted() {
  Proposal row = proposed();
  row.state = ProposalState::kAccepted;
  return row;
}
Proposal migrating(Proposal row) {
  row.move = true;
  return row;
}

/// "drop Stale +0", "publish", "accept", "repartition"; empty if there are none.
std::string text_of(const Step& step, Instant now) {
  std::string out;
  for (const Action& action : step.actions) {
    if (!out.empty()) out += ", ";
    if (const auto* drop = std::get_if<Drop>(&action))
      out += fmt::format("drop {} +{}", drop->why, seconds(drop->next - now));
    if (std::holds_alternative<Publish>(action)) out += "publish";
    if (std::holds_alternative<Accept>(action)) out += "accept";
    if (std::holds_alternative<OrderRepartitions>(action)) out += "repartition";
  }
  return out;
}

// ---- preemption ----

struct Checks {
  bool fits = true, again = true;
  int fits_calls = 0, again_calls = 0;
};
std::string advance(const Proposal& row, std::size_t left, bool changed, Duration after, Checks& checks) {
  const PreemptionObserved seen{left, changed, [&] { return ++checks.fits_calls, checks.fits; },
                                [&] { return ++checks.again_calls, checks.again; }};
  return text_of(advance_preemption(row, seen, kPublished + after, kTimes), kPublished + after);
}

TEST(PreemptionLifecycle, AnUnansweredProposalIsCheckedAndPublishedAgain) {
  Checks checks;
  EXPECT_EQ(advance(proposed(), 1, false, 29s, checks), "");
  EXPECT_EQ(checks.again_calls, 0) << "a search is made only when it decides";
  EXPECT_EQ(advance(proposed(), 1, false, 30s, checks), "publish");
  EXPECT_EQ(advance(proposed(3), 1, false, 30s, checks), "drop Unanswered +600");
  EXPECT_EQ(checks.again_calls, 1);
  checks.again = false;
  EXPECT_EQ(advance(proposed(), 1, false, 30s, checks), "drop Stale +0");
}

TEST(PreemptionLifecycle, ThePublicationIsCounted) {
  const PreemptionObserved seen{1, false, [] { return true; }, [] { return true; }};
  const Step step = advance_preemption(proposed(), seen, kPublished + 40s, kTimes);
  EXPECT_EQ(step.row.publish_count, 2);
  EXPECT_EQ(step.row.published_at, kPublished + 40s);
  EXPECT_EQ(wake_at(step.row, kTimes, kDefrag), kPublished + 70s);
}

TEST(PreemptionLifecycle, WhetherItStillFitsIsCheckedAfterAChange) {
  Checks checks{.fits = false};
  EXPECT_EQ(advance(accepted(), 1, false, 1s, checks), "");
  EXPECT_EQ(checks.fits_calls, 0);
  EXPECT_EQ(advance(accepted(), 1, true, 1s, checks), "drop Stale +0");
  EXPECT_EQ(advance(proposed(), 1, true, 1s, checks), "drop Stale +0");
  checks.fits = true;
  EXPECT_EQ(advance(accepted(), 1, true, 1s, checks), "");
}

TEST(PreemptionLifecycle, AfterItsVictimsItFitsOrEnds) {
  Checks checks;
  EXPECT_EQ(advance(accepted(), 0, false, 1s, checks), "drop Stale +0") << "it was not placed, so it does not fit";
  Proposal row = accepted();
  row.repartitions[NodeName("n1")] = "all-1g.10gb";
  EXPECT_EQ(advance(row, 1, false, 1s, checks), "");
  EXPECT_EQ(advance(row, 0, true, 1s, checks), "repartition");
  EXPECT_EQ(checks.fits_calls, 0);
}

TEST(PreemptionLifecycle, ItIsOverWhenItsWorkloadIsNotPendingAnyMore) {
  EXPECT_FALSE(is_over(proposed(), {true, 4, WorkloadPhase::kQuotaReserved}));
  EXPECT_TRUE(is_over(proposed(), {true, 5, WorkloadPhase::kQuotaReserved}));
  EXPECT_TRUE(is_over(proposed(), {true, 4, WorkloadPhase::kAdmitted}));
  EXPECT_TRUE(is_over(proposed(), {}));
}

TEST(PreemptionLifecycle, RefusalsDelayTheNextSearch) {
  const ProposalAnswer all{1, false, "BudgetSpent", {}}, some{1, false, "VictimRefused", {WorkloadUid("victim")}};
  PreemptionOptions options = kTimes;
  options.every = 1s;
  Step step = answer_preemption(proposed(), some, kPublished, options);
  EXPECT_EQ(text_of(step, kPublished), "drop VictimRefused +0") << "another set may be possible";
  EXPECT_EQ(step.row.refused.at(WorkloadUid("victim")), kPublished + 600s);
  std::string delays;
  for (int i = 0; i < 12; ++i) {
    step = answer_preemption(step.row, all, kPublished, options);
    delays += fmt::format("{} ", seconds(std::get<Drop>(step.actions.front()).next - kPublished));
  }
  EXPECT_EQ(delays, "4 8 16 32 64 128 256 512 1024 1024 1024 1024 ");
  EXPECT_EQ(text_of(answer_preemption(proposed(), all, kPublished, options), kPublished), "drop BudgetSpent +2");
}

TEST(PreemptionLifecycle, ARefusedVictimMayBeProposedAgainLater) {
  Proposal row = proposed();
  row.refused[WorkloadUid("old")] = kPublished;
  const Step step = answer_preemption(row, {1, false, "No", {WorkloadUid("victim")}}, kPublished, kTimes);
  EXPECT_FALSE(step.row.refused.contains(WorkloadUid("old")));
  EXPECT_TRUE(step.row.refused.contains(WorkloadUid("victim")));
}

TEST(PreemptionLifecycle, AnAcceptedProposalHasNoTimer) {
  Proposal row = proposed();
  row.refusals = 3;
  const Step step = answer_preemption(row, {1, true, {}, {}}, kPublished + 5s, kTimes);
  EXPECT_EQ(text_of(step, kPublished), "accept");
  EXPECT_EQ(step.row.state, ProposalState::kAccepted);
  EXPECT_EQ(step.row.refusals, 0);
  EXPECT_EQ(wake_at(step.row, kTimes, kDefrag), Instant::max());
}

// ---- migration ----

std::string review(const Proposal& row, WorkloadObserved workload, bool placed = false, bool as_planned = false) {
  return text_of(review_migration(row, {workload, placed, as_planned}, kPublished), kPublished);
}

TEST(MigrationLifecycle, FollowsItsWorkload) {
  const Proposal asked = migrating(proposed()), agreed = migrating(accepted());
  using enum WorkloadPhase;
  EXPECT_EQ(review(asked, {true, 4, kAdmitted}), "");
  EXPECT_EQ(review(asked, {true, 4, kEvicting}), "drop Over +0") << "evicted for another reason";
  EXPECT_EQ(review(agreed, {true, 4, kEvicting}), "");
  EXPECT_EQ(review(agreed, {true, 4, kFinished}), "drop Over +0");
  EXPECT_EQ(review(agreed, {true, 5, kPending}), "");
  EXPECT_EQ(review(asked, {true, 5, kPending}), "accept") << "evicted before the answer arrived";
  EXPECT_EQ(review(agreed, {true, 5, kAdmitted}, true, true), "drop Placed +0");
  EXPECT_EQ(review(agreed, {true, 5, kAdmitted}, true, false), "drop Elsewhere +0");
  EXPECT_EQ(review(agreed, {true, 6, kPending}), "drop Over +0");
  EXPECT_EQ(review(agreed, {}), "drop Over +0");
}

TEST(MigrationLifecycle, EndsIfItIsNotPlacedInTime) {
  const auto at = [](const Proposal& row, Duration after, bool valid) {
    return text_of(advance_migration(
                       row, [=] { return valid; }, kPublished + after, kTimes, kDefrag),
                   kPublished + after);
  };
  EXPECT_EQ(at(migrating(accepted()), 599s, false), "");
  EXPECT_EQ(at(migrating(accepted()), 600s, true), "drop Late +0");
  EXPECT_EQ(wake_at(migrating(accepted()), kTimes, kDefrag), kPublished + 600s);
  EXPECT_EQ(at(migrating(proposed()), 29s, false), "");
  EXPECT_EQ(at(migrating(proposed()), 30s, false), "drop Stale +0");
  EXPECT_EQ(at(migrating(proposed()), 30s, true), "publish");
  EXPECT_EQ(at(migrating(proposed(3)), 30s, true), "drop Unanswered +0");
}

TEST(MigrationLifecycle, TheAnswerStartsTheTimeToBePlaced) {
  const Step step = answer_migration(migrating(proposed()), {1, true, {}, {}}, kPublished + 7s);
  EXPECT_EQ(text_of(step, kPublished), "accept");
  EXPECT_EQ(step.row.published_at, kPublished + 7s);
  EXPECT_EQ(text_of(answer_migration(migrating(proposed()), {1, false, "Budget", {}}, kPublished), kPublished),
            "drop Budget +0");
}

// ---- recovery ----

TEST(RecoveryLifecycle, HoldsCapacityForTheNextAttemptUntilItsEnd) {
  Proposal row;
  row.state = ProposalState::kRecovering;
  row.attempt = 4;
  row.until = kPublished + 300s;
  const auto at = [&](WorkloadObserved workload, Duration after) {
    return text_of(advance_recovery(row, workload, kPublished + after), kPublished + after);
  };
  using enum WorkloadPhase;
  EXPECT_EQ(at({true, 4, kEvicting}, 299s), "");
  EXPECT_EQ(at({true, 5, kPending}, 299s), "");
  EXPECT_EQ(at({true, 5, kPending}, 300s), "drop Over +0");
  EXPECT_EQ(at({true, 6, kPending}, 1s), "drop Over +0");
  EXPECT_EQ(at({true, 4, kFinished}, 1s), "drop Over +0");
  EXPECT_EQ(at({true, 4, kCancelled}, 1s), "drop Over +0");
  EXPECT_EQ(at({}, 1s), "drop Over +0");
  EXPECT_EQ(wake_at(row, kTimes, kDefrag), kPublished + 300s);
}

}  // namespace
}  // namespace qm::placement::disruption
