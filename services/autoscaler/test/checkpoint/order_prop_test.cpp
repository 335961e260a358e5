// Generated orders: the verdict does not depend on the order of answers, and an Acked step was saved by the quorum.
#include "qm/autoscaler/checkpoint/order.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

namespace qm::autoscaler::checkpoint {
namespace order_prop_test {

constexpr Instant kNow = from_micros(1'000'000'000'000);

struct Made {
  GangSave order;
  std::vector<Answer> answers;
};

Made make() {
  Made out;
  out.order.fence = {*rc::gen::inRange(1, 4), *rc::gen::inRange(1, 5)};
  out.order.quorum = *rc::gen::inRange(0, 5);
  out.order.deadline = kNow + std::chrono::seconds(*rc::gen::inRange(-1, 3));
  const int nodes = *rc::gen::inRange(1, 5);
  for (int i = 0; i < nodes; ++i) out.order.nodes.emplace_back(fmt::format("n{}", i));
  const int answers = *rc::gen::inRange(0, nodes + 1);
  for (int i = 0; i < answers; ++i) {
    Answer answer;
    answer.node = out.order.nodes[static_cast<std::size_t>(i)];
    answer.fence = {*rc::gen::inRange(1, 4), *rc::gen::inRange(0, 5)};
    if (*rc::gen::inRange(0, 4) > 0) answer.fence = out.order.fence;
    const int first = *rc::gen::inRange(1, 4);
    for (int step = first; step < first + *rc::gen::inRange(1, 3); ++step) {
      StepSave save;
      save.step = step, save.ranks = *rc::gen::inRange(1, 3), save.uri = fmt::format("s3://{}", step);
      answer.ranks += save.ranks;
      answer.saves.push_back(save);
    }
    if (*rc::gen::inRange(0, 5) == 0) answer.refusal = "refused", ++answer.ranks;
    out.answers.push_back(std::move(answer));
  }
  return out;
}

TEST(GangSaveProperty, TheVerdictDoesNotDependOnTheOrderOfAnswers) {
  EXPECT_TRUE(rc::check("order", [] {
    Made made = make();
    GangSave other = made.order;
    for (const auto& answer : made.answers) (void)receive(made.order, answer);
    std::ranges::reverse(made.answers);
    for (const auto& answer : made.answers) (void)receive(other, answer);
    const bool over = *rc::gen::arbitrary<bool>();
    RC_ASSERT(judge(made.order, kNow, over) == judge(other, kNow, over));
  }));
}

TEST(GangSaveProperty, AnAckedStepWasSavedByTheQuorumOfThisIncarnation) {
  EXPECT_TRUE(rc::check("acked", [] {
    Made made = make();
    std::int64_t answered = 0, ranks = 0;
    bool refused = false;
    std::map<std::int64_t, std::int64_t> by_step;
    for (const auto& answer : made.answers) {
      const bool current = answer.fence.attempt == made.order.fence.attempt &&
                           (answer.fence.number == 0 || answer.fence.number == made.order.fence.number);
      RC_ASSERT((receive(made.order, answer) == Reception::kAccepted) == current);
      if (!current) continue;
      ++answered, ranks += answer.ranks;
      refused = refused || !answer.refusal.empty();
      for (const auto& save : answer.saves) by_step[save.step] += save.ranks;
    }
    const Verdict verdict = judge(made.order, kNow, false);
    std::int64_t best = -1;
    const bool all = answered == static_cast<std::int64_t>(made.order.nodes.size());
    for (const auto& [step, n] : by_step) {
      if (made.order.quorum > 0 ? n >= made.order.quorum : all && !refused && n == ranks) best = step;
    }
    RC_ASSERT((verdict.state == State::kAcked) == (best >= 0));
    if (best >= 0) RC_ASSERT(verdict.saved.step == best && verdict.saved.ranks == by_step[best]);
    RC_ASSERT(verdict.reason.empty() == (verdict.state == State::kAcked || !is_closed(verdict.state)));
    if (verdict.state == State::kLate) RC_ASSERT(made.order.deadline <= kNow);
  }));
}

}  // namespace order_prop_test
}  // namespace qm::autoscaler::checkpoint
