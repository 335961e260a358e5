#include "checkpoints.hpp"

#include "qm/http/http.hpp"
#include "qm/testing/testing.hpp"
#include "rig.hpp"
#include "sources.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::agent {
namespace checkpoints_test {

using qm::testing::wait_until;
using testing::FakeRanks;
using ::testing::HasSubstr;
using testing::pod_of;
using ::testing::SizeIs;

class CheckpointsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(ranks.started());
    pods.synced();
  }
  void pod(const std::string& name, const std::string& node = "n") {
    pods.apply(pod_of(name, node, "job", 2, FakeRanks::kUrl), false);
  }
  [[nodiscard]] Checkpoints::Options behind_gateway(std::chrono::milliseconds timeout = std::chrono::seconds(5)) const {
    return {timeout, ranks.url_template()};
  }
  static pb::CheckpointOrder order_of(const std::string& id) {
    pb::CheckpointOrder order;
    order.set_id(id);
    order.set_uid("job");
    order.set_attempt(2);
    order.set_namespace_("team");
    order.set_kind("Job");
    order.set_reason("SpotInterruption");
    order.set_deadline_us(5'000'000);
    order.set_number(17);
    return order;
  }
  /// Carries out an order and removes its acknowledgements from the queue.
  std::vector<pb::CheckpointAck> carry_out(Checkpoints& desk, const std::string& id,
                                           const std::vector<std::string>& own = {"n"}) {
    desk.order(order_of(id), own);
    EXPECT_TRUE(wait_until([&] { return facts.size() == own.size(); }));
    facts.renew();
    std::vector<pb::CheckpointAck> acks;
    for (const auto& fact : facts.due({}, 100)) {
      acks.push_back(fact.ack());
      facts.confirm(fact.id());
    }
    return acks;
  }

  FakeRanks ranks;
  Pods pods;
  Facts facts{"boot"};
  ManualClock clock{from_micros(77)};
};

TEST_F(CheckpointsTest, RanksAreReportedByTheStepThatTheySaved) {
  Checkpoints desk(pods, facts, clock, behind_gateway());
  pod("r0"), pod("r1"), pod("r2"), pod("elsewhere", "m");
  ranks.saved("r0", 120), ranks.saved("r2", 120);
  ranks.say("r1",
            {http::json(200, R"({"step":100,"uri":"s3://r1","epoch":3,"bytes":7,"seconds":1.5,"fence":"2-17"})")});
  const auto acks = carry_out(desk, "o1");
  ASSERT_THAT(acks, SizeIs(1));
  const auto& ack = acks[0];
  EXPECT_EQ(ack.order_id(), "o1");
  EXPECT_EQ(ack.uid(), "job");
  EXPECT_EQ(ack.attempt(), 2);
  EXPECT_EQ(ack.node(), "n");
  EXPECT_EQ(ack.ranks(), 3);
  EXPECT_EQ(ack.step(), 100);
  EXPECT_EQ(ack.uri(), "s3://r1");
  EXPECT_EQ(ack.at_us(), 77);
  EXPECT_EQ(ack.number(), 17);
  ASSERT_EQ(ack.saves_size(), 2);
  EXPECT_EQ(ack.saves(0).step(), 100);
  EXPECT_EQ(ack.saves(0).epoch(), 3);
  EXPECT_EQ(ack.saves(0).bytes(), 7);
  EXPECT_EQ(ack.saves(0).took_us(), 1'500'000);
  EXPECT_EQ(ack.saves(1).step(), 120);
  EXPECT_EQ(ack.saves(1).ranks(), 2);
  EXPECT_EQ(ack.saves(1).uri(), "s3://r0") << "that of the first rank";
  EXPECT_TRUE(ack.ok()) << ack.message();
  const auto asked = ranks.asked();
  ASSERT_THAT(asked, SizeIs(3));
  const auto body = Json::parse(asked[0].second);
  ASSERT_TRUE(body);
  EXPECT_EQ((*body)["deadline"].string(), "1970-01-01T00:00:05Z");
  EXPECT_EQ((*body)["reason"].string(), "SpotInterruption");
  EXPECT_EQ((*body)["gang"].string(), "job");
  EXPECT_EQ((*body)["attempt"].integer(), 2);
  EXPECT_EQ((*body)["fence"].string(), "2-17");
}

// S-240: the hook of the rank receives both destinations, and its answer becomes path, step, bytes and duration.
TEST_F(CheckpointsTest, ARankGetsBothDestinations) {
  Checkpoints desk(pods, facts, clock, behind_gateway());
  pods.apply(
      pod_of("r0", "n", "job", 2,
             R"({"http":"http://{podIP}:8480/save","uri":"s3://ckpt/job","copy":"gs://checkpoints/spot-recovery/"})"),
      false);
  ranks.say("r0", {http::json(200, R"({"step":7,"uri":"s3://ckpt/job/7","bytes":512,"seconds":2.5})")});
  const auto acks = carry_out(desk, "o1");
  ASSERT_THAT(acks, SizeIs(1));
  ASSERT_EQ(acks[0].saves_size(), 1);
  const auto& save = acks[0].saves(0);
  EXPECT_EQ(save.uri(), "s3://ckpt/job/7");
  EXPECT_EQ(save.step(), 7);
  EXPECT_EQ(save.bytes(), 512);
  EXPECT_EQ(save.took_us(), 2'500'000);
  const auto order = Json::parse(ranks.asked().at(0).second);
  ASSERT_TRUE(order);
  EXPECT_EQ((*order)["uri"].string(), "s3://ckpt/job");
  EXPECT_EQ((*order)["copy"].string(), "gs://checkpoints/spot-recovery/");
}

TEST_F(CheckpointsTest, EachOwnNodeAnswersForItself) {
  Checkpoints desk(pods, facts, clock, behind_gateway());
  pod("r0", "n"), pod("r1", "m");
  ranks.saved("r0", 5), ranks.saved("r1", 6);
  const auto acks = carry_out(desk, "o1", {"n", "m"});
  ASSERT_THAT(acks, SizeIs(2));
  EXPECT_EQ(acks[0].ranks() + acks[1].ranks(), 2);
  EXPECT_NE(acks[0].node(), acks[1].node());
}

TEST_F(CheckpointsTest, RepeatedOrderGetsTheSameAnswerWithoutAsking) {
  Checkpoints desk(pods, facts, clock, behind_gateway());
  pod("r0");
  ranks.saved("r0", 5);
  const auto first = carry_out(desk, "o1");
  ranks.saved("r0", 9);
  clock.advance(std::chrono::seconds(1));
  const auto second = carry_out(desk, "o1");
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_EQ(first[0].SerializeAsString(), second[0].SerializeAsString());
  EXPECT_THAT(ranks.asked(), SizeIs(1));
  EXPECT_EQ(carry_out(desk, "o2")[0].step(), 9) << "another order asks again";
}

TEST_F(CheckpointsTest, OneRefusalIsNotOk) {
  Checkpoints desk(pods, facts, clock, behind_gateway());
  pod("r0"), pod("r1");
  ranks.saved("r0", 5);
  ranks.say("r1", {http::text(409, "busy")});
  const auto acks = carry_out(desk, "o1");
  ASSERT_THAT(acks, SizeIs(1));
  EXPECT_FALSE(acks[0].ok());
  EXPECT_EQ(acks[0].ranks(), 2);
  EXPECT_THAT(acks[0].message(), HasSubstr("team/r1"));
  EXPECT_THAT(acks[0].message(), HasSubstr("409"));
  ranks.saved("r1", 4);
  const auto again = carry_out(desk, "o1");
  EXPECT_TRUE(again[0].ok()) << "what failed is tried again when the order is repeated";
  EXPECT_EQ(again[0].step(), 4);
}

TEST_F(CheckpointsTest, ServerErrorsAreTriedAgain) {
  Checkpoints desk(pods, facts, clock, behind_gateway());
  pod("r0");
  ranks.say("r0", {http::text(503, "starting"), http::json(200, R"({"step": 8, "uri": "s3://x"})")});
  const auto acks = carry_out(desk, "o1");
  EXPECT_TRUE(acks[0].ok()) << acks[0].message();
  EXPECT_EQ(acks[0].step(), 8);
}

// A rank of an earlier incarnation of the gang that is still there.
TEST_F(CheckpointsTest, AnAnswerToAnotherOrderIsStale) {
  Checkpoints desk(pods, facts, clock, behind_gateway());
  pod("r0");
  for (const char* fence : {"1-17", "2-16", "x"}) {
    ranks.say("r0", {http::json(200, Json::object({{"step", 8}, {"uri", "s3://x"}, {"fence", fence}}).dump())});
    const auto acks = carry_out(desk, std::string("o") + fence);
    EXPECT_FALSE(acks[0].ok()) << fence;
    EXPECT_EQ(acks[0].saves_size(), 0);
    EXPECT_THAT(acks[0].message(), HasSubstr("and the order is 2-17"));
  }
}

TEST_F(CheckpointsTest, UnreadableAnswersAreNotOk) {
  Checkpoints desk(pods, facts, clock, behind_gateway());
  pod("r0");
  for (const std::string& body :
       {std::string("done"), std::string(R"({"uri": "s3://x"})"), std::string(100'000, ' ')}) {
    ranks.say("r0", {http::json(200, body)});
    const auto acks = carry_out(desk, "o1");
    EXPECT_FALSE(acks[0].ok()) << body.substr(0, 40);
    EXPECT_THAT(acks[0].message(), HasSubstr("team/r0 answers with"));
  }
}

TEST_F(CheckpointsTest, RanksThatCannotBeAsked) {
  Checkpoints desk(pods, facts, clock, behind_gateway());
  pods.apply(pod_of("plain", "n", "job", 2), false);
  EXPECT_THAT(carry_out(desk, "o1")[0].message(),
              HasSubstr("team/plain: annotation quartermaster.dev/checkpoint is missing"));
  pods.apply(pod_of("plain", "n", "job", 2, "nowhere"), false);
  EXPECT_THAT(carry_out(desk, "o1")[0].message(), HasSubstr("is not an http URL"));
}

// Another tenant's pod that names the workload could otherwise choose the URI that the workload resumes from.
TEST_F(CheckpointsTest, PodsOfOthersThatNameTheWorkloadAreNotAsked) {
  Checkpoints desk(pods, facts, clock, behind_gateway());
  pod("r0");
  pods.apply(pod_of("forged", "n", "job", 2, FakeRanks::kUrl, "Running", "other"), false);
  Json named = pod_of("named", "n", "job", 2, FakeRanks::kUrl, "Running", "other");
  named.set("metadata").erase("ownerReferences");
  named.set("metadata").set("annotations").set("quartermaster.dev/workload", "job");
  pods.apply(named, false);
  named.set("metadata").set("namespace", "team").set("name", "same-team").set("uid", "uid-same-team");
  pods.apply(named, false);
  // An owner that is not the controller: the pod does not belong to the Job.
  Json co_owned = pod_of("co-owned", "n", "job", 2, FakeRanks::kUrl);
  co_owned.set("metadata").set("ownerReferences").items_mut()[0].set("controller", false);
  pods.apply(co_owned, false);
  ranks.saved("r0", 100);
  for (const char* other : {"forged", "named", "same-team", "co-owned"}) ranks.saved(other, 1);
  const auto acks = carry_out(desk, "o1");
  ASSERT_THAT(acks, SizeIs(1));
  EXPECT_TRUE(acks[0].ok()) << acks[0].message();
  EXPECT_EQ(acks[0].ranks(), 1);
  EXPECT_EQ(acks[0].step(), 100);
  EXPECT_EQ(acks[0].uri(), "s3://r0");
  EXPECT_EQ(acks[0].namespace_(), "team");
  ASSERT_THAT(ranks.asked(), SizeIs(1));
  EXPECT_EQ(ranks.asked()[0].first, "r0");
}

// The Job of a JobSet is the controller; the annotation that admission wrote on the template names the JobSet.
TEST_F(CheckpointsTest, APodOfAJobSetIsKnownByItsAnnotation) {
  Checkpoints desk(pods, facts, clock, behind_gateway());
  Json rank = pod_of("r0", "n", "child", 2, FakeRanks::kUrl);
  rank.set("metadata").set("annotations").set("quartermaster.dev/workload", "set");
  pods.apply(rank, false);
  ranks.saved("r0", 3);
  auto order = order_of("o1");
  order.set_uid("set");
  order.set_kind("JobSet");
  desk.order(order, {"n"});
  ASSERT_TRUE(wait_until([&] { return facts.size() == 1; }));
  EXPECT_EQ(facts.due({}, 1)[0].ack().step(), 3);
}

TEST_F(CheckpointsTest, AnOrderWithoutANamespaceIsRefused) {
  Checkpoints desk(pods, facts, clock, behind_gateway());
  pod("r0");
  ranks.saved("r0", 5);
  auto order = order_of("o1");
  order.clear_namespace_();
  desk.order(order, {"n"});
  ASSERT_TRUE(wait_until([&] { return facts.size() == 1; }));
  const auto ack = facts.due({}, 1)[0].ack();
  EXPECT_FALSE(ack.ok());
  EXPECT_THAT(ack.message(), HasSubstr("the order names no namespace"));
  EXPECT_THAT(ranks.asked(), SizeIs(0));
}

TEST_F(CheckpointsTest, ARedirectIsNotFollowed) {
  FakeRanks elsewhere;
  ASSERT_TRUE(elsewhere.started());
  elsewhere.saved("stolen", 7);
  Checkpoints desk(pods, facts, clock, behind_gateway());
  pod("r0");
  for (const int status : {301, 302, 303, 307, 308}) {
    http::Response redirect = http::text(status, "");
    redirect.headers.set("Location", fill_template(elsewhere.url_template(), {{"pod", "stolen"}}));
    ranks.say("r0", {redirect});
    const auto acks = carry_out(desk, "o" + std::to_string(status));
    EXPECT_FALSE(acks[0].ok());
    EXPECT_THAT(acks[0].message(), HasSubstr("answers with status " + std::to_string(status)));
  }
  EXPECT_THAT(elsewhere.asked(), SizeIs(0));
}

TEST_F(CheckpointsTest, AUriThatIsNoneIsNotPassedOn) {
  Checkpoints desk(pods, facts, clock, behind_gateway());
  pod("r0");
  for (const std::string& uri : {std::string("s3://a\nb"), std::string(2000, 'a'), std::string("s3://a b")}) {
    ranks.say("r0", {http::json(200, Json::object({{"step", 5}, {"uri", uri}}).dump())});
    const auto acks = carry_out(desk, "o" + std::to_string(uri.size()));
    EXPECT_FALSE(acks[0].ok()) << uri.substr(0, 20);
    EXPECT_EQ(acks[0].uri(), "");
    EXPECT_THAT(acks[0].message(), HasSubstr("team/r0 answers with a URI that cannot be used"));
  }
  ranks.say("r0", {http::json(200, R"({"step":-1,"uri":"s3://x"})")});
  EXPECT_THAT(carry_out(desk, "o-1")[0].message(), HasSubstr("without a step"));
}

TEST_F(CheckpointsTest, NoRankIsNotOk) {
  Checkpoints desk(pods, facts, clock, behind_gateway());
  const auto acks = carry_out(desk, "o1");
  EXPECT_EQ(acks[0].ranks(), 0);
  EXPECT_FALSE(acks[0].ok());
  EXPECT_THAT(acks[0].message(), HasSubstr("no rank"));
}

TEST_F(CheckpointsTest, SilentRankIsGivenUp) {
  Checkpoints desk(pods, facts, clock, behind_gateway(std::chrono::milliseconds(300)));
  pod("r0"), pod("r1");
  ranks.silent("r0");
  ranks.saved("r1", 5);
  const auto acks = carry_out(desk, "o1");
  ASSERT_THAT(acks, SizeIs(1));
  EXPECT_FALSE(acks[0].ok());
  EXPECT_THAT(acks[0].message(), HasSubstr("team/r0"));  // the message names the first failed rank
}

TEST_F(CheckpointsTest, OrderUnderWayIsNotStartedTwiceAndStopDoesNotWaitForIt) {
  Checkpoints desk(pods, facts, clock, behind_gateway(std::chrono::minutes(5)));
  pod("r0");
  ranks.silent("r0");
  desk.order(order_of("o1"), {"n"});
  ASSERT_TRUE(wait_until([&] { return ranks.asked().size() == 1; }));
  desk.order(order_of("o1"), {"n"});
  pod("r1");
  ranks.saved("r1", 1);
  pods.apply(pod_of("r0", "n", "job", 2), true);
  EXPECT_TRUE(carry_out(desk, "o2")[0].ok());
  EXPECT_THAT(ranks.asked(), SizeIs(2));
  desk.stop();
  EXPECT_EQ(facts.size(), 0U);
}

}  // namespace checkpoints_test
}  // namespace qm::agent
