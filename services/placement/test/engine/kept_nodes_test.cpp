// Nodes that are kept for the pods that they were launched for.
#include "qm/kube_rules/pod_rules.hpp"
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::placement::testing {
namespace kept_nodes_test {

using namespace std::chrono_literals;

class KeptNodes : public ::testing::Test {
 protected:
  void play(const std::string& line) { (void)script.run(line); }
  /// Its nodes by rank; empty = it has none.
  [[nodiscard]] std::string where(const std::string& attempt) {
    const Assignment* row = script.engine().tables().assignments.find(attempt_id(attempt));
    std::string out;
    for (const Member& member : row == nullptr ? std::vector<Member>() : row->members)
      out += fmt::format("{}{}", out.empty() ? "" : " ", member.node);
    return out;
  }
  [[nodiscard]] bool is_kept(const std::string& node) {
    return script.engine().tables().nodes.find(NodeName(node))->kept;
  }

  Script script;
};

// The small workload is first in the queue. Its own node is not there yet.
TEST_F(KeptNodes, APodWaitsForItsOwnNodeInsteadOfALargerOne) {
  play("synced");
  play("want small/1 1x1");
  play("want large/1 1x8");
  play("node a gpus=8 for=large");
  EXPECT_EQ(where("large/1"), "a");
  EXPECT_EQ(where("small/1"), "");
  EXPECT_FALSE(is_kept("a"));
  play("node b gpus=1 for=small");
  EXPECT_EQ(where("small/1"), "b");
}

TEST_F(KeptNodes, TheRestIsFreeOnceAllItsWorkloadsArePlaced) {
  play("synced");
  play("want other/1 1x2");
  play("want y/1 1x2 select=disk=ssd");
  play("want x/1 1x4");
  play("node a gpus=8 for=x,y");
  EXPECT_EQ(where("x/1"), "a");
  EXPECT_EQ(where("y/1"), "") << "a has no such label";
  EXPECT_EQ(where("other/1"), "");
  EXPECT_TRUE(is_kept("a"));
  play("node b gpus=2 label=disk=ssd for=y");
  EXPECT_EQ(where("y/1"), "b");
  EXPECT_EQ(where("other/1"), "a") << "in the same step";
}

TEST_F(KeptNodes, AWorkloadThatEndedKeepsNothing) {
  play("synced");
  play("want x/1 1x16");
  play("want other/1 1x8");
  play("node a gpus=8 for=x");
  EXPECT_EQ(where("other/1"), "");
  play("phase x/1 cancelled");
  EXPECT_EQ(where("other/1"), "a");
}

// A workload that lost its quota for lack of nodes is offered its node.
TEST_F(KeptNodes, APendingWorkloadKeepsItsNode) {
  play("synced");
  play("want x/1 1x8");
  play("phase x/2 pending no-room");
  play("node a gpus=8 ready=no for=x");
  play("node a gpus=8 for=x");
  const auto offers = script.engine().requeue();
  ASSERT_EQ(offers.size(), 1U);
  EXPECT_EQ(offers[0].id, attempt_id("x/2"));
  play("want other/1 1x8");
  EXPECT_EQ(where("other/1"), "");
  play("want x/2 1x8");
  EXPECT_EQ(where("x/2"), "a");
}

// Neither change makes the node usable for others.
TEST_F(KeptNodes, ItsWorkloadGetsItWhenItIsReadyAndItsGpusAreRegistered) {
  play("synced");
  play("want x/1 1x4");
  play("want y/1 1x8");
  play("node a gpus=0 ready=no for=x,y");
  play("node a gpus=0 for=x,y");
  play("node a gpus=8 for=x,y");
  EXPECT_EQ(where("x/1"), "a");
  // What another of its workloads does not need any more.
  play("phase x/1 cancelled");
  EXPECT_EQ(where("y/1"), "a");
}

TEST_F(KeptNodes, TheTimeIsLimitedAndCountsFromWhenTheNodeIsInitialized) {
  play("synced");
  play("want x/1 1x16");
  play("want other/1 1x8");
  play("node a gpus=8 ready=no for=x");
  play("tick 300");
  play("node a gpus=8 for=x");
  play("tick 300");
  play("node a gpus=8 for=x label=karpenter.sh/initialized=true");
  play("tick 119");
  EXPECT_TRUE(is_kept("a"));
  const auto output = script.step({Tick{}});
  ASSERT_TRUE(output.wake_at);
  EXPECT_EQ(*output.wake_at, script.now() + 1s);
  play("tick 1");
  EXPECT_EQ(where("other/1"), "a");
  // It is not kept again.
  play("phase other/1 cancelled");
  play("node a gpus=8 for=x label=karpenter.sh/initialized=true label=k=v");
  play("want next/1 1x8");
  EXPECT_EQ(where("next/1"), "a");
}

TEST_F(KeptNodes, TheNodesOfAGangAreKeptUntilTheLastOneHadItsTime) {
  play("synced");
  play("want x/1 3x8");
  play("want other/1 1x8");
  play("node a gpus=8 for=x label=karpenter.sh/initialized=true");
  play("node b gpus=8 ready=no for=x");
  play("tick 150");
  EXPECT_TRUE(is_kept("a")) << "b starts";
  play("node b gpus=8 for=x label=karpenter.sh/initialized=true");
  play("tick 119");
  EXPECT_TRUE(is_kept("a") && is_kept("b"));
  play("tick 1");
  EXPECT_FALSE(is_kept("b"));
  play("tick 121");
  EXPECT_FALSE(is_kept("a"));
  EXPECT_NE(where("other/1"), "");
}

// The pods that a running gang lacks are planned together with those of other workloads.
TEST_F(KeptNodes, ARunningGangGetsTheNodesOfItsMissingPods) {
  play("node old gpus=2");
  play("synced");
  play("want e/1 4x2 min=1");
  EXPECT_EQ(where("e/1"), "old");
  play("phase e/1 admitted");
  for (int i = 0; i < 4; ++i) play(fmt::format("pod e/1#{}", i));
  play("pod e/1#0 on=old running");
  play("want x/1 1x2 select=disk=ssd");
  play("node a gpus=8 for=e,x");
  EXPECT_EQ(where("e/1"), "old a a a");
  play("want other/1 1x2");
  EXPECT_EQ(where("other/1"), "") << "x has no node yet";
}

TEST_F(KeptNodes, AHigherPriorityUsesThemAndALowerOneDoesNot) {
  play("synced");
  play("want x/1 1x16 prio=5");
  play("node a gpus=8 for=x");
  play("want low/1 1x8 prio=1");
  play("want equal/1 1x8 prio=5");
  EXPECT_EQ(where("low/1") + where("equal/1"), "");
  play("want high/1 1x8 prio=9");
  EXPECT_EQ(where("high/1"), "a");
}

TEST_F(KeptNodes, TheReasonSaysWhyTheyAreNotUsed) {
  play("synced");
  play("want x/1 1x16");
  play("node a gpus=8 for=x");
  play("want other/1 1x8");
  const Assignment& row = *script.engine().tables().assignments.find(attempt_id("other/1"));
  EXPECT_NE(row.short_reason.find("kept for the pods that they were launched for"), std::string::npos)
      << row.short_reason;
}

TEST(KeptNodesOff, NoNodeIsKept) {
  Options options;
  options.launch_hold = {};
  Script script(options);
  for (const char* line : {"synced", "want x/1 1x16", "node a gpus=8 for=x", "want other/1 1x8"})
    (void)script.run(line);
  EXPECT_TRUE(script.engine().tables().assignments.find(attempt_id("other/1"))->holds());
}

}  // namespace kept_nodes_test
}  // namespace qm::placement::testing
