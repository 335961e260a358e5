#include "qm/telemetry/shell.hpp"

#include <gtest/gtest.h>

namespace qm::telemetry {
namespace hub_test {

pb::AgentOrder order(const std::string& id) {
  pb::AgentOrder o;
  o.mutable_checkpoint()->set_id(id);
  return o;
}

struct Agent {
  Agent(AgentHub& h, const std::vector<std::string>& nodes) : hub(h) {
    id = hub.connect([this](const pb::AgentOrder& o) {
      if (over) return false;
      got.push_back(o.checkpoint().id());
      return true;
    });
    hub.serve(id, nodes);
  }
  AgentHub& hub;
  std::uint64_t id = 0;
  bool over = false;
  std::vector<std::string> got;
};

TEST(AgentHub, OrdersGoToTheAgentOfTheNode) {
  AgentHub hub;
  Agent one(hub, {"a", "b"}), two(hub, {"c"});
  EXPECT_TRUE(hub.send("b", order("o1")));
  EXPECT_TRUE(hub.send("c", order("o2")));
  EXPECT_FALSE(hub.send("d", order("o3"))) << "no agent serves it";
  EXPECT_EQ(one.got, std::vector<std::string>{"o1"});
  EXPECT_EQ(two.got, std::vector<std::string>{"o2"});
  EXPECT_EQ(hub.agents(), 2U);
}

TEST(AgentHub, TheNewestAgentOfANodeIsUsedAndThePreviousFollowsIt) {
  AgentHub hub;
  Agent old(hub, {"a"}), young(hub, {"a"});
  EXPECT_TRUE(hub.send("a", order("1")));
  EXPECT_EQ(young.got.size(), 1U);
  // The previous stream ends after the new one begins: the node must still be reachable.
  hub.disconnect(old.id);
  EXPECT_TRUE(hub.send("a", order("2")));
  EXPECT_EQ(young.got.size(), 2U);
  Agent third(hub, {"a"});
  hub.disconnect(third.id);
  EXPECT_TRUE(hub.send("a", order("3"))) << "the one before is still there";
  EXPECT_EQ(young.got.size(), 3U);
  hub.disconnect(young.id);
  hub.disconnect(young.id);
  EXPECT_FALSE(hub.send("a", order("4")));
  EXPECT_EQ(hub.agents(), 0U);
  EXPECT_TRUE(old.got.empty());
}

TEST(AgentHub, AClosedStreamMakesThePreviousAgentCurrent) {
  AgentHub hub;
  Agent old(hub, {"a"}), young(hub, {"a"});
  young.over = true;
  EXPECT_TRUE(hub.send("a", order("1")));
  EXPECT_EQ(old.got, std::vector<std::string>{"1"});
  old.over = true;
  EXPECT_FALSE(hub.send("a", order("2")));
}

TEST(AgentHub, AnAgentMayNameOtherNodesLater) {
  AgentHub hub;
  Agent agent(hub, {"a", "b"});
  hub.serve(agent.id, {"b", "c"});
  EXPECT_FALSE(hub.send("a", order("1")));
  EXPECT_TRUE(hub.send("b", order("2")));
  EXPECT_TRUE(hub.send("c", order("3")));
  hub.disconnect(agent.id);
  hub.serve(agent.id, {"a"});
  EXPECT_FALSE(hub.send("a", order("4"))) << "it has gone";
}

TEST(AgentHub, ExecutesOrdersAsIntents) {
  AgentHub hub;
  const store::IntentRow intent{"order/o/a", "agent.order", "a", 1, order("o").SerializeAsString()};
  EXPECT_EQ(hub.execute(intent)->bytes, "no agent") << "done: a connecting agent gets it";
  Agent agent(hub, {"a"});
  EXPECT_EQ(hub.execute(intent)->bytes, "sent");
  EXPECT_EQ(agent.got, std::vector<std::string>{"o"});
  const auto broken = hub.execute({"order/p/a", "agent.order", "a", 2, "\x01\xff"});
  ASSERT_FALSE(broken);
  EXPECT_FALSE(broken.error().retryable());
  EXPECT_NE(hub.failed(intent, broken.error()).bytes.find("order/p/a"), std::string::npos);
}

}  // namespace hub_test
}  // namespace qm::telemetry
