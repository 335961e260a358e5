#include "facts.hpp"

#include "notices.hpp"
#include "rig.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::agent {
namespace facts_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Look = NoticeWatch::Look;

pb::AgentFact xid(int code) {
  pb::AgentFact fact;
  fact.mutable_xid()->set_xid(code);
  return fact;
}
pb::AgentFact devices(const std::string& node, int at) {
  pb::AgentFact fact;
  fact.mutable_devices()->set_node(node);
  fact.mutable_devices()->set_at_us(at);
  return fact;
}
std::vector<std::string> ids(const std::vector<pb::AgentFact>& facts) {
  std::vector<std::string> out;
  for (const auto& fact : facts) out.push_back(fact.id());
  return out;
}

TEST(FactsTest, KeptUntilConfirmedAndRepeatedInTime) {
  Facts facts("boot");
  const SteadyInstant t0{};
  ASSERT_TRUE(facts.add("n", xid(1)));
  ASSERT_TRUE(facts.add("n", xid(2)));
  EXPECT_THAT(ids(facts.due(t0, 10)), ElementsAre("n/boot/1", "n/boot/2"));
  EXPECT_THAT(facts.due(t0 + Facts::kRepeat / 2, 10), IsEmpty());
  facts.confirm("n/boot/1");
  facts.confirm("n/other/2");
  EXPECT_THAT(ids(facts.due(t0 + Facts::kRepeat, 10)), ElementsAre("n/boot/2"));
  facts.renew();
  EXPECT_THAT(ids(facts.due(t0 + Facts::kRepeat, 10)), ElementsAre("n/boot/2")) << "a new stream gets all of them";
  facts.confirm("n/boot/2");
  EXPECT_EQ(facts.size(), 0U);
}

TEST(FactsTest, SentInPortions) {
  Facts facts("boot");
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(facts.add("n", xid(i)));
  EXPECT_THAT(facts.due({}, 3), SizeIs(3));
  EXPECT_THAT(facts.due({}, 3), SizeIs(2));
  EXPECT_THAT(facts.due({}, 3), IsEmpty());
}

TEST(FactsTest, NewerDevicesTakeTheOldOnesPlace) {
  Facts facts("boot");
  ASSERT_TRUE(facts.add("n", devices("n", 1)));
  ASSERT_TRUE(facts.add("m", devices("m", 1)));
  ASSERT_TRUE(facts.add("n", devices("n", 2)));
  const auto due = facts.due({}, 10);
  ASSERT_THAT(ids(due), ElementsAre("m/boot/2", "n/boot/3"));
  EXPECT_EQ(due[1].devices().at_us(), 2);
}

TEST(FactsTest, FullQueueRefuses) {
  Facts facts("boot", 2);
  ASSERT_TRUE(facts.add("n", xid(1)));
  ASSERT_TRUE(facts.add("n", devices("n", 1)));
  EXPECT_FALSE(facts.add("n", xid(2)));
  EXPECT_TRUE(facts.add("n", devices("n", 2))) << "it needs no space of its own";
  facts.confirm("n/boot/1");
  EXPECT_TRUE(facts.add("n", xid(2)));
}

class NoticeTest : public ::testing::Test {
 protected:
  void notice(const std::string& time) {
    metadata.set("n/spot/instance-action", R"({"action": "terminate", "time": ")" + time + "\"}");
  }
  void spot() {
    metadata.set("n/instance-life-cycle", "spot");
    metadata.set("n/instance-id", "i-1");
  }
  testing::FakeMetadata metadata;
  Facts facts{"boot"};
  NoticeWatch watch{"n", aws_notices("n", metadata, std::chrono::seconds(90)), facts};
  Instant now = from_micros(5);
};

// An on-demand instance has no spot notices; maintenance and lifecycle hooks concern it too.
TEST_F(NoticeTest, OnDemandHasNoSpotNotice) {
  metadata.set("n/instance-life-cycle", "on-demand");
  metadata.set("n/instance-id", "i-1");
  notice("2026-11-21T09:14:29Z");
  EXPECT_EQ(watch.look(now), Look::kNothing);
  EXPECT_EQ(metadata.looks("n/spot/instance-action"), 0);
  metadata.set("n/events/maintenance/scheduled", R"([
    {"NotBefore":"21 Nov 2026 09:00:43 GMT","Code":"system-reboot","EventId":"e-1","State":"active"},
    {"NotBefore":"21 Nov 2026 08:00:00 GMT","Code":"system-reboot","EventId":"e-0","State":"canceled"}])");
  metadata.set("n/autoscaling/target-lifecycle-state", "Terminated");
  int looks = 0;
  while (watch.look(now) != Look::kNotice && looks < 100) ++looks;
  EXPECT_EQ(looks, 9) << "each tenth read";
  const auto due = facts.due({}, 10);
  ASSERT_THAT(due, SizeIs(2));
  EXPECT_EQ(due[0].notice().kind(), "maintenance");
  EXPECT_EQ(due[0].notice().action(), "system-reboot");
  EXPECT_EQ(from_micros(due[0].notice().at_us()), *from_rfc3339("2026-11-21T09:00:43Z"));
  EXPECT_EQ(due[1].notice().kind(), "lifecycle");
  EXPECT_EQ(from_micros(due[1].notice().at_us()), now + std::chrono::seconds(90));
}

TEST_F(NoticeTest, ARecommendationIsANoticeOfItsOwn) {
  spot();
  metadata.set("n/events/recommendations/rebalance", R"({"noticeTime": "2026-11-21T09:14:00Z"})");
  EXPECT_EQ(watch.look(now), Look::kNotice);
  notice("2026-11-21T09:16:29Z");
  EXPECT_EQ(watch.look(now), Look::kNotice);
  const auto due = facts.due({}, 10);
  ASSERT_THAT(due, SizeIs(2));
  EXPECT_EQ(due[0].notice().kind(), "rebalance");
  EXPECT_EQ(due[1].notice().kind(), "");
}

// S-239: a missing document is not a notice; an existing one has an action and a time.
TEST_F(NoticeTest, OnceForEachNotice) {
  spot();
  EXPECT_EQ(watch.look(now), Look::kNothing);
  notice("2026-11-21T09:14:29Z");
  EXPECT_EQ(watch.look(now), Look::kNotice);
  EXPECT_EQ(watch.look(now), Look::kNothing);
  const auto due = facts.due({}, 10);
  ASSERT_THAT(due, SizeIs(1));
  EXPECT_EQ(due[0].notice().instance_id(), "i-1");
  EXPECT_EQ(due[0].notice().action(), "terminate");
  EXPECT_EQ(from_micros(due[0].notice().at_us()), *from_rfc3339("2026-11-21T09:14:29Z"));
  EXPECT_EQ(due[0].notice().seen_us(), 5);
  notice("2026-11-21T09:16:29Z");
  EXPECT_EQ(watch.look(now), Look::kNotice) << "another time is another notice";
  EXPECT_EQ(metadata.looks("n/instance-life-cycle"), 1);
  EXPECT_EQ(metadata.looks("n/instance-id"), 1);
}

// S-239: each action that EC2 defines.
TEST_F(NoticeTest, TheActionIsKept) {
  spot();
  std::vector<std::string> actions;
  for (const char* action : {"terminate", "stop", "hibernate"}) {
    metadata.set("n/spot/instance-action",
                 std::string(R"({"time": "2026-11-21T09:14:29Z", "action": ")") + action + "\"}");
    EXPECT_EQ(watch.look(now), Look::kNotice) << action;
  }
  for (const auto& fact : facts.due({}, 10)) actions.push_back(fact.notice().action());
  EXPECT_EQ(actions, (std::vector<std::string>{"terminate", "stop", "hibernate"}));
}

// S-239: a failed or malformed read is not a notice; it is repeated after a growing pause.
TEST_F(NoticeTest, WhatCannotBeReadIsAskedAgain) {
  spot();
  metadata.away(true);
  EXPECT_EQ(watch.look(now), Look::kError);
  EXPECT_EQ(watch.look(now), Look::kBackOff);
  std::vector<std::int64_t> pauses;
  for (int i = 0; i < 6; ++i) {
    const Instant before = now;
    while (watch.look(now) == Look::kBackOff) now += std::chrono::seconds(1);
    pauses.push_back((now - before) / std::chrono::seconds(1));
  }
  EXPECT_EQ(pauses, (std::vector<std::int64_t>{1, 2, 4, 8, 16, 30}));
  const auto later = [&] { return now += std::chrono::seconds(60); };
  metadata.away(false);
  notice("soon");
  EXPECT_EQ(watch.look(later()), Look::kError);
  metadata.set("n/spot/instance-action", "<html>");
  EXPECT_EQ(watch.look(later()), Look::kError);
  metadata.clear("n/instance-id");
  notice("2026-11-21T09:14:29Z");
  EXPECT_EQ(watch.look(later()), Look::kError) << "a notice without its instance is useless";
  EXPECT_EQ(facts.size(), 0U);
  metadata.set("n/instance-id", "i-1");
  EXPECT_EQ(watch.look(later()), Look::kNotice);
}

TEST_F(NoticeTest, FullQueueMeansLater) {
  Facts full("boot", 0);
  NoticeWatch other("n", aws_notices("n", metadata, std::chrono::seconds(90)), full);
  spot();
  notice("2026-11-21T09:14:29Z");
  EXPECT_EQ(other.look(now), Look::kError);
}

}  // namespace facts_test
}  // namespace qm::agent
