// Which pending pods the plans have on nodes that are initialized: see script.hpp for the commands.
#include "test/engine/script.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::autoscaler::testing {
namespace nomination_cases_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// An engine with details of nodes, and what it nominates.
struct Cases {
  Script script{with_details()};

  static Options with_details() {
    Options out;
    out.node_details = true;
    return out;
  }
  /// The commands of these lines are one batch.
  void step(const std::vector<std::string>& lines) {
    std::vector<Command> batch;
    for (const auto& line : lines) {
      for (auto& command : script.commands(line)) batch.push_back(std::move(command));
    }
    (void)script.step(batch);
    EXPECT_EQ(script.complaint(), "");
  }
  [[nodiscard]] std::vector<std::string> nominated() {
    std::vector<std::string> out;
    for (const auto& [uid, node, pods] : script.engine().nominations())
      out.push_back(fmt::format("{} {} {}", uid, node, pods));
    return out;
  }
  [[nodiscard]] std::vector<std::string> held() {
    std::vector<std::string> out;
    for (const auto& node : script.engine().held_nodes()) out.push_back(node.value());
    return out;
  }
};

TEST(Nominations, OnceTheNodeIsInitializedInTheOrderOfTheDemand) {
  Cases c;
  c.step({"pool p types=g4 startup=agent"});
  c.step({"want a/1 1x1", "want b/1 1x1 prio=5", "want c/1 1x2"});
  EXPECT_THAT(c.nominated(), IsEmpty());
  c.step({"up p-00001 i-1 n1"});
  EXPECT_THAT(c.nominated(), IsEmpty()) << "its details are not known";
  c.step({"details n1 i-1 taint=agent gpus=4"});
  EXPECT_THAT(c.nominated(), IsEmpty()) << "it has its startup taint";
  c.step({"details n1 i-1"});
  EXPECT_THAT(c.nominated(), IsEmpty()) << "it has no GPUs";
  c.step({"details n1 i-1 gpus=4"});
  EXPECT_THAT(c.nominated(), ElementsAre("b n1 1", "a n1 1", "c n1 1"));
  // A pod that is bound is not in the demand any more.
  c.step({"unwant b", "node n1 i-1 pods=1"});
  EXPECT_THAT(c.nominated(), ElementsAre("a n1 1", "c n1 1"));
}

// The taint of the autoscaler is the last one: with another one, or without its GPUs, the node is not ready for its pods.
TEST(Nominations, WhileTheNodeIsHeld) {
  Cases c;
  c.step({"pool p types=g4 startup=agent"});
  c.step({"want a/1 1x1"});
  c.step({"up p-00001 i-1 n1"});
  c.step({"details n1 i-1 taint=quartermaster.dev/nominating"});
  EXPECT_THAT(c.nominated(), IsEmpty()) << "it has no GPUs";
  EXPECT_THAT(c.held(), IsEmpty());
  c.step({"details n1 i-1 taint=quartermaster.dev/nominating gpus=4"});
  EXPECT_THAT(c.nominated(), ElementsAre("a n1 1"));
  EXPECT_THAT(c.held(), ElementsAre("n1"));
  c.step({"node n1 i-1 notready"});
  EXPECT_THAT(c.held(), IsEmpty());
  c.step({"node n1 i-1", "details n1 i-1 gpus=4"});
  EXPECT_THAT(c.nominated(), ElementsAre("a n1 1"));
  EXPECT_THAT(c.held(), IsEmpty());
}

TEST(Nominations, ANodeWithoutAClaimIsHeldByTheTaintToo) {
  Cases c;
  c.step({"node other i-9", "details other i-9 taint=quartermaster.dev/nominating"});
  EXPECT_THAT(c.held(), ElementsAre("other"));
}

TEST(Nominations, EachNodeAsItBecomesReady) {
  Cases c;
  c.step({"pool p types=g1"});
  c.step({"want a/1 1x1", "want b/1 1x1"});
  c.step({"up p-00002 i-2 n2", "details n2 i-2 gpus=1"});
  EXPECT_THAT(c.nominated(), ElementsAre("b n2 1"));
  c.step({"up p-00001 i-1 n1", "details n1 i-1 gpus=1"});
  EXPECT_THAT(c.nominated(), ElementsAre("a n1 1", "b n2 1"));
}

TEST(Nominations, NotOnANodeThatIsNotReadyCordonedOrReclaimed) {
  for (const char* event : {"node n1 i-1 notready", "node n1 i-1 cordoned", "notice n1 120", "health n1 broken"}) {
    Cases c;
    c.step({"pool p types=g1"});
    c.step({"want a/1 1x1"});
    c.step({"up p-00001 i-1 n1", "details n1 i-1 gpus=1"});
    EXPECT_THAT(c.nominated(), ElementsAre("a n1 1"));
    c.step({event});
    EXPECT_THAT(c.nominated(), IsEmpty()) << event;
  }
}

TEST(Nominations, TheNumberOfPodsOfAGangOnEachNode) {
  Cases c;
  c.step({"pool p types=g4"});
  c.step({"want w/1 3x2"});
  c.step({"up p-00001 i-1 n1", "up p-00002 i-2 n2", "details n1 i-1 gpus=4", "details n2 i-2 gpus=4"});
  EXPECT_THAT(c.nominated(), ElementsAre("w n1 2", "w n2 1"));
}

TEST(Nominations, NoneForAGangWithDifferentPods) {
  Cases c;
  c.step({"pool p types=g4"});
  c.step({"want w/1 1x2+1x1"});
  c.step({"up p-00001 i-1 n1", "details n1 i-1 gpus=4"});
  EXPECT_THAT(c.nominated(), IsEmpty());
}

}  // namespace nomination_cases_test
}  // namespace qm::autoscaler::testing
