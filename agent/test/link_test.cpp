#include "link.hpp"

#include "qm/testing/testing.hpp"
#include "rig.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace qm::agent {
namespace link_test {

using qm::testing::free_port;
using qm::testing::wait_until;
using ::testing::ElementsAre;
using testing::FakeTelemetry;
using ::testing::SizeIs;

class LinkTest : public ::testing::Test {
 protected:
  std::unique_ptr<Link> link_to(const std::string& address) {
    return std::make_unique<Link>(Link::Options{address, "1",
                                                [this](const pb::CheckpointOrder& order) {
                                                  const std::lock_guard lock(mutex);
                                                  orders.push_back(order.id());
                                                }},
                                  facts);
  }
  static pb::AgentFact xid(int code) {
    pb::AgentFact fact;
    fact.mutable_xid()->set_xid(code);
    return fact;
  }
  static pb::SampleFrame frame(int sequence) {
    pb::SampleFrame f;
    f.set_node("n");
    f.set_sequence(static_cast<std::uint64_t>(sequence));
    return f;
  }
  static std::vector<std::string> nodes(const pb::AgentHello& hello) {
    return {hello.nodes().begin(), hello.nodes().end()};
  }

  Facts facts{"boot"};
  std::mutex mutex;
  std::vector<std::string> orders;
};

TEST_F(LinkTest, HelloNamesTheNodesAndAgainWhenTheyChange) {
  FakeTelemetry server;
  auto link = link_to(server.address());
  link->serve({"a", "b"});
  link->start();
  ASSERT_TRUE(wait_until([&] { return server.hellos().size() == 1; }));
  link->serve({"a"});
  ASSERT_TRUE(wait_until([&] { return server.hellos().size() == 2; }));
  EXPECT_THAT(nodes(server.hellos()[0]), ElementsAre("a", "b"));
  EXPECT_THAT(nodes(server.hellos()[1]), ElementsAre("a"));
  EXPECT_EQ(server.streams(), 1);
}

TEST_F(LinkTest, FactsAreRepeatedUntilCommittedAcrossAReconnect) {
  const int port = free_port();
  auto server = std::make_unique<FakeTelemetry>(port);
  server->confirm_facts(false);
  auto link = link_to(server->address());
  link->serve({"n"});
  link->start();
  ASSERT_TRUE(facts.add("n", xid(79)));
  ASSERT_TRUE(wait_until([&] { return server->facts().size() == 1; }));
  EXPECT_EQ(facts.size(), 1U);
  server.reset();
  ASSERT_TRUE(wait_until([&] { return !link->up(); }));
  ASSERT_TRUE(facts.add("n", xid(48)));
  server = std::make_unique<FakeTelemetry>(port);
  ASSERT_TRUE(wait_until([&] { return facts.size() == 0; }));
  const auto got = server->facts();
  ASSERT_THAT(got, SizeIs(2));
  EXPECT_EQ(got[0].id(), "n/boot/1");
  EXPECT_EQ(got[0].xid().xid(), 79);
  EXPECT_EQ(got[1].id(), "n/boot/2");
  EXPECT_THAT(nodes(server->hellos().at(0)), ElementsAre("n")) << "a new stream begins with a hello";
  EXPECT_EQ(link->counters().reconnects, 1U);
}

TEST_F(LinkTest, UnconfirmedFactsAreRepeatedOnTheSameStream) {
  FakeTelemetry server;
  server.confirm_facts(false);
  auto link = link_to(server.address());
  link->start();
  ASSERT_TRUE(facts.add("n", xid(1)));
  ASSERT_TRUE(wait_until([&] { return server.facts().size() == 1; }));
  server.confirm_facts(true);
  EXPECT_TRUE(wait_until([&] { return facts.size() == 0; }));
  EXPECT_EQ(server.streams(), 1);
}

TEST_F(LinkTest, FramesWithoutAStreamAreDropped) {
  const int port = free_port();
  auto link = link_to("127.0.0.1:" + std::to_string(port));
  link->start();
  link->frame(frame(1));
  EXPECT_EQ(link->counters().frames_dropped, 1U);
  FakeTelemetry server(port);
  ASSERT_TRUE(wait_until([&] { return link->up(); }));
  link->frame(frame(2));
  ASSERT_TRUE(wait_until([&] { return server.frames().size() == 1; }));
  EXPECT_EQ(server.frames()[0].sequence(), 2U) << "the gap shows";
}

TEST_F(LinkTest, OrdersAreHandedOn) {
  FakeTelemetry server;
  auto link = link_to(server.address());
  link->start();
  pb::CheckpointOrder order;
  order.set_id("o1");
  ASSERT_TRUE(wait_until([&] { return server.order(order); }));
  EXPECT_TRUE(wait_until([&] {
    const std::lock_guard lock(mutex);
    return orders.size() == 1 && orders[0] == "o1";
  }));
}

TEST_F(LinkTest, StopsWithinTwoSecondsWhateverThePeerDoes) {
  FakeTelemetry server;
  auto up = link_to(server.address());
  up->start();
  ASSERT_TRUE(wait_until([&] { return up->up(); }));
  auto no_stream = link_to("127.0.0.1:" + std::to_string(free_port()));
  no_stream->start();
  const auto from = std::chrono::steady_clock::now();
  up->stop();
  no_stream->stop();
  EXPECT_LT(std::chrono::steady_clock::now() - from, std::chrono::seconds(2));
}

}  // namespace link_test
}  // namespace qm::agent
