// The rows of docs/lifecycle.md about telemetry, one test each: how its engine handles facts that arrive once, twice,
// late or never.
#include "qm/telemetry/engine.hpp"

#include <gtest/gtest.h>

namespace qm::telemetry {
namespace telemetry_lives_test {

const NodeName kNode("n1"), kOther("n2");
const AttemptId kAttempt{WorkloadUid("w"), 1};

class Life : public ::testing::Test {
 protected:
  Output step(std::vector<Command> batch) {
    Output out = engine_.step(batch, now_);
    engine_.commit();
    return out;
  }
  void wait(Duration d) { now_ += d; }
  [[nodiscard]] XidUpdated xid(std::int32_t code, std::int32_t gpu = 0) const {
    return {kNode, code, gpu, DeviceUuid("GPU-0"), "", now_};
  }
  [[nodiscard]] OrderUpdated order(const std::string& id) const {
    return {id, kAttempt, {kNode, kOther}, "SpotInterruption", now_ + std::chrono::seconds(110), false};
  }
  [[nodiscard]] AckUpdated ack(const std::string& id, const NodeName& node) const {
    return {id, kAttempt, node, 1, 70, "s3://70", "", true, now_};
  }

  Engine engine_;
  Instant now_ = from_micros(1'000'000'000'000);
};
using Verdict = Life;
using News = Life;
using Orders = Life;

// S-334: a code leads to an action; 79 cordons.
TEST_F(Verdict, TheHeaviestOfANodeStands) {
  auto out = step({xid(13)});
  ASSERT_EQ(out.health.size(), 1U);
  EXPECT_EQ(out.health[0].row.action, Action::kWatch);
  out = step({xid(79, 3)});
  ASSERT_EQ(out.health.size(), 1U);
  EXPECT_EQ(out.health[0].row.action, Action::kCordon);
  EXPECT_EQ(out.health[0].row.gpu_index, 3);
  EXPECT_TRUE(step({xid(79, 3)}).health.empty()) << "again";
  EXPECT_TRUE(step({xid(48, 3)}).health.empty()) << "lighter";
  EXPECT_EQ(engine_.tables().health.find(kNode)->xid, 79);
}

TEST_F(Verdict, AnUnknownCodeIsWatched) {
  const auto out = step({xid(99'999)});
  ASSERT_EQ(out.health.size(), 1U);
  EXPECT_EQ(out.health[0].row.action, Action::kWatch);
}

TEST_F(Verdict, GoesWithTheNode) {
  (void)step({xid(79), NoticeUpdated{kNode, InstanceId("i-1"), "terminate", now_},
              DevicesUpdated{kNode, now_, {{Namespace("a"), "p", {}}}}});
  (void)step({NodeDeleted{kNode}});
  EXPECT_EQ(engine_.tables().health.size() + engine_.tables().notices.size() + engine_.tables().devices.size(), 0U);
  EXPECT_EQ(step({xid(13)}).health.size(), 1U) << "a new node of the name starts anew";
}

TEST_F(News, ANoticeIsPublishedOnce) {
  const NoticeUpdated notice{kNode, InstanceId("i-1"), "terminate", now_ + std::chrono::minutes(2)};
  EXPECT_EQ(step({notice, notice}).notices.size(), 1U);
  EXPECT_TRUE(step({notice}).notices.empty());
  auto next = notice;
  next.instance = InstanceId("i-2");
  EXPECT_EQ(step({next}).notices.size(), 1U) << "another machine under the name";
}

TEST_F(News, DevicesArePublishedWhenTheyChange) {
  EXPECT_TRUE(step({DevicesUpdated{kNode, now_, {}}}).devices.empty()) << "nothing is what was known";
  const DevicesUpdated one{kNode, now_, {{Namespace("a"), "p", {}}}};
  EXPECT_EQ(step({one}).devices.size(), 1U);
  wait(std::chrono::minutes(1));
  EXPECT_TRUE(step({DevicesUpdated{kNode, now_, one.pods}}).devices.empty()) << "the same a minute later";
  EXPECT_EQ(step({DevicesUpdated{kNode, now_, {}}}).devices.size(), 1U);
}

TEST_F(News, AClosedIntervalIsPassedOn) {
  UsageUpdated usage;
  usage.node = kNode;
  usage.utilization = 0.5;
  const auto out = step({usage});
  ASSERT_EQ(out.usage.size(), 1U);
  EXPECT_EQ(out.usage[0].utilization, 0.5);
}

TEST_F(Orders, AreKeptForAgentsUntilTheyAnswer) {
  (void)step({order("o")});
  (void)step({order("o")});
  EXPECT_EQ(engine_.open_orders(kNode).size(), 1U);
  EXPECT_EQ(engine_.open_orders(kOther).size(), 1U);
  EXPECT_TRUE(engine_.open_orders(NodeName("n3")).empty());
  (void)step({ack("o", kNode)});
  EXPECT_TRUE(engine_.open_orders(kNode).empty());
  EXPECT_EQ(engine_.open_orders(kOther).size(), 1U);
  const auto late = order("late");
  wait(std::chrono::minutes(12));
  (void)step({late});
  EXPECT_TRUE(engine_.open_orders(kOther).empty()) << "past its deadline nobody is asked";
  EXPECT_EQ(engine_.tables().orders.size(), 0U) << "one has ended, the other came too late";
}

TEST_F(Orders, AnAnswerIsPublishedOnce) {
  EXPECT_TRUE(step({ack("o", kNode)}).acks.empty()) << "of no known order";
  (void)step({order("o")});
  EXPECT_EQ(step({ack("o", kNode)}).acks.size(), 1U);
  EXPECT_TRUE(step({ack("o", kNode)}).acks.empty());
  EXPECT_EQ(step({ack("o", kOther)}).acks.size(), 1U);
}

TEST_F(Orders, EndTenMinutesPastTheirDeadline) {
  auto out = step({order("o"), ack("o", kNode)});
  ASSERT_TRUE(out.wake_at);
  EXPECT_EQ(*out.wake_at, now_ + std::chrono::seconds(110) + std::chrono::minutes(10));
  now_ = *out.wake_at - Duration(1);
  (void)step({Tick{}});
  EXPECT_EQ(engine_.tables().orders.size(), 1U);
  now_ = *out.wake_at;
  (void)step({Tick{}});
  EXPECT_EQ(engine_.tables().orders.size() + engine_.tables().acked.size(), 0U);
  EXPECT_TRUE(step({ack("o", kOther)}).acks.empty()) << "late";
}

}  // namespace telemetry_lives_test
}  // namespace qm::telemetry
