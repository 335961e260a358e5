// Checkpoint orders: answers, fences, quorum and states.
#include "qm/autoscaler/checkpoint/order.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler::checkpoint {
namespace order_test {

constexpr Instant kNow = from_micros(1'000'000'000'000);
constexpr Instant kDeadline = kNow + std::chrono::seconds(110);

GangSave order_of(std::vector<NodeName> nodes, std::int32_t quorum = 0) {
  GangSave out;
  out.fence = {3, 17};
  out.quorum = quorum;
  out.nodes = std::move(nodes);
  out.deadline = kDeadline;
  return out;
}

Answer answer_of(const char* node, std::vector<StepSave> saves, std::string refusal = {}) {
  Answer out{NodeName(node), {3, 17}, 0, std::move(saves), std::move(refusal)};
  for (const auto& save : out.saves) out.ranks += save.ranks;
  if (!out.refusal.empty()) ++out.ranks;
  return out;
}

StepSave saved(std::int64_t step, std::int32_t ranks, std::string uri = {}) {
  StepSave out;
  out.step = step, out.ranks = ranks, out.uri = std::move(uri);
  return out;
}

State state_of(const GangSave& order, Instant now = kNow, bool over = false) { return judge(order, now, over).state; }

TEST(GangSave, IsAckedWhenEveryRankSavedTheSameStep) {
  GangSave order = order_of({NodeName("n1"), NodeName("n2")});
  EXPECT_EQ(state_of(order), State::kSignaled);
  StepSave first = saved(500, 8);
  first.bytes = 10, first.took = std::chrono::seconds(3), first.epoch = 2;
  EXPECT_EQ(receive(order, answer_of("n2", {first})), Reception::kAccepted);
  EXPECT_EQ(state_of(order), State::kSaving);
  StepSave second = saved(500, 8, "s3://b/epoch-2-step-500");
  second.bytes = 5, second.took = std::chrono::seconds(7), second.epoch = 2;
  EXPECT_EQ(receive(order, answer_of("n1", {second})), Reception::kAccepted);
  const Verdict verdict = judge(order, kNow, false);
  EXPECT_EQ(verdict.state, State::kAcked);
  EXPECT_EQ(verdict.saved, (StepSave{500, 2, 16, "s3://b/epoch-2-step-500", 15, Duration(std::chrono::seconds(7))}));
  EXPECT_TRUE(is_closed(verdict.state));
}

TEST(GangSave, FailsWhereRanksSavedDifferentSteps) {
  GangSave order = order_of({NodeName("n1"), NodeName("n2")});
  ASSERT_EQ(receive(order, answer_of("n1", {saved(500, 7), saved(501, 1)})), Reception::kAccepted);
  EXPECT_EQ(state_of(order), State::kSaving);
  ASSERT_EQ(receive(order, answer_of("n2", {saved(500, 8)})), Reception::kAccepted);
  const Verdict verdict = judge(order, kNow, false);
  EXPECT_EQ(verdict.state, State::kFailed);
  EXPECT_EQ(verdict.reason, "16 ranks have to save the same step, and they saved step 500 by 15 ranks, 501 by 1 rank");
}

TEST(GangSave, ADeclaredQuorumIsEnough) {
  GangSave order = order_of({NodeName("n1"), NodeName("n2"), NodeName("n3")}, 2);
  ASSERT_EQ(receive(order, answer_of("n1", {saved(500, 1)}, "n1-1: out of memory")), Reception::kAccepted);
  EXPECT_EQ(state_of(order), State::kSaving);  // a refusal does not end an order that has a quorum
  ASSERT_EQ(receive(order, answer_of("n2", {saved(500, 1, "u")})), Reception::kAccepted);
  EXPECT_EQ(state_of(order), State::kAcked);  // n3 has not answered

  GangSave other = order_of({NodeName("n1"), NodeName("n2")}, 2);
  ASSERT_EQ(receive(other, answer_of("n1", {saved(500, 1)})), Reception::kAccepted);
  ASSERT_EQ(receive(other, answer_of("n2", {saved(501, 1)})), Reception::kAccepted);
  EXPECT_EQ(state_of(other), State::kFailed);
}

TEST(GangSave, ARefusalEndsAnOrderWithoutAQuorum) {
  GangSave order = order_of({NodeName("n1"), NodeName("n2")});
  ASSERT_EQ(receive(order, answer_of("n2", {}, "team/train-1 answers with status 503")), Reception::kAccepted);
  const Verdict verdict = judge(order, kNow, false);
  EXPECT_EQ(verdict.state, State::kFailed);
  EXPECT_EQ(verdict.reason, "n2: team/train-1 answers with status 503");
}

TEST(GangSave, AStaleAnswerIsFenced) {
  GangSave order = order_of({NodeName("n1")});
  Answer late = answer_of("n1", {saved(900, 1, "s3://old")});
  late.fence = {2, 17};  // an earlier incarnation of the gang
  EXPECT_EQ(receive(order, late), Reception::kStale);
  late.fence = {3, 16};  // the same incarnation, an earlier order
  EXPECT_EQ(receive(order, late), Reception::kStale);
  late.fence = {2, 0};  // an agent of an earlier release, and an earlier incarnation
  EXPECT_EQ(receive(order, late), Reception::kStale);
  EXPECT_TRUE(order.answers.empty());
  late.fence = {3, 0};
  EXPECT_EQ(receive(order, late), Reception::kAccepted);
}

TEST(GangSave, OtherNodesAndRepetitionsDoNotCount) {
  GangSave order = order_of({NodeName("n1"), NodeName("n2")});
  EXPECT_EQ(receive(order, answer_of("n9", {saved(1, 1)})), Reception::kForeign);
  EXPECT_EQ(receive(order, answer_of("n1", {saved(1, 1)})), Reception::kAccepted);
  EXPECT_EQ(receive(order, answer_of("n1", {saved(2, 1)})), Reception::kDuplicate);
  EXPECT_EQ(order.answers.size(), 1U);
}

TEST(GangSave, IsLateAtItsDeadlineAndReleasedWithItsAttempt) {
  GangSave order = order_of({NodeName("n1"), NodeName("n2")});
  ASSERT_EQ(receive(order, answer_of("n1", {saved(5, 1)})), Reception::kAccepted);
  EXPECT_EQ(state_of(order, kDeadline - Duration(1)), State::kSaving);
  EXPECT_EQ(judge(order, kDeadline, false).reason, "1 of 2 nodes answered before the deadline");
  EXPECT_EQ(state_of(order, kDeadline), State::kLate);
  EXPECT_EQ(state_of(order, kNow, true), State::kReleased);
  EXPECT_EQ(judge(order, kNow, true).reason, "the attempt ended after 1 of 2 nodes had answered");
  // Everything was saved before the attempt ended.
  ASSERT_EQ(receive(order, answer_of("n2", {saved(5, 1)})), Reception::kAccepted);
  EXPECT_EQ(state_of(order, kDeadline, true), State::kAcked);
}

TEST(GangSave, StatesHaveTheNamesOfTheContract) {
  EXPECT_EQ(name_of(State::kSignaled), "Signaled");
  EXPECT_EQ(name_of(State::kReleased), "Released");
  EXPECT_FALSE(is_closed(State::kSaving));
  EXPECT_TRUE(is_closed(State::kLate));
}

}  // namespace order_test
}  // namespace qm::autoscaler::checkpoint
