// A host whose lead is not proven at the moment: it continues to decide, because the store refuses a former leader;
// but it has no effect on the external world, and publishes nothing that another leader may have invalidated.
#include "sums.hpp"

namespace qm::service {
namespace unproven_test {

struct Unproven {
  World w{"unproven"};
  bool proven = true, answers = true;
  /// The executor is called through this check: the proof may expire between the first check and the last.
  int looks = 0, gone_after = -1;

  Unproven() {
    HostOptions options;
    options.may_act = [this] { return proven && (gone_after < 0 || looks++ < gone_after); };
    options.may_answer = [this] { return answers; };
    w.boot(options);
  }
};

TEST(Host, NothingIsDoneOutsideWhileTheLeadIsNotProven) {
  Unproven u;
  ASSERT_TRUE(u.w.add("a=1", "r1"));
  u.proven = false;
  u.w.settle();
  EXPECT_EQ(u.w.sums->sum("a"), 1) << "deciding goes on: the commit is what fails for an old leader";
  EXPECT_TRUE(u.w.doer.done.empty());
  EXPECT_EQ(u.w.host->counters().open_intents, 1U);
  u.proven = true;
  u.w.settle();
  EXPECT_EQ(u.w.doer.done.size(), 1U) << "done once, when it is proven again";
  EXPECT_EQ(u.w.host->counters().open_intents, 0U);
}

TEST(Host, AnIntentThatWasTakenWaitsToo) {
  Unproven u;
  ASSERT_TRUE(u.w.add("a=1", "r1"));
  while (u.w.host->pump()) {
  }
  u.gone_after = 1;  // proven at the first check, and no longer at the start of the intent
  EXPECT_FALSE(u.w.host->execute_once());
  EXPECT_EQ(u.looks, 2);
  EXPECT_TRUE(u.w.doer.done.empty());
  u.gone_after = -1;
  EXPECT_TRUE(u.w.host->execute_once()) << "it was restored";
  EXPECT_EQ(u.w.doer.done.size(), 1U);
}

TEST(Host, RequestsAndReadsAreRefusedWhereAnotherMayLead) {
  Unproven u;
  EXPECT_TRUE(u.w.host->ready());
  u.answers = false;
  EXPECT_FALSE(u.w.host->ready()) << "who is ready is sent calls";
  const auto refused = u.w.add("a=1", "r1");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  const auto read = u.w.host->read_async([](const Shell&) { FAIL(); });
  ASSERT_FALSE(read);
  EXPECT_FALSE(u.w.host->can_answer()) << "reads of other threads ask first";
  EXPECT_EQ(read.error().code, Code::kUnavailable);
  Input seen;
  seen.source = Source::kWatch;
  seen.bytes = "a=2";
  EXPECT_TRUE(u.w.host->submit(std::move(seen))) << "what a watch saw is not asked again, so it is not refused";
  u.w.settle();
  EXPECT_EQ(u.w.sums->sum("a"), 2);
  u.answers = true;
  EXPECT_TRUE(u.w.add("a=1", "r1"));
}

}  // namespace unproven_test
}  // namespace qm::service
