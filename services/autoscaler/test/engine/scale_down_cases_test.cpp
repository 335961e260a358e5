// Scale-down of node groups by their utilization: the engine's part. Which nodes are not needed, the library decides.
#include "qm/autoscaler/disrupt/disrupt.hpp"
#include "test/engine/script.hpp"
#include "test/scale_down/fleet.hpp"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace qm::autoscaler::testing {
namespace scale_down_cases_test {

using namespace std::chrono_literals;

Options options() {
  Options out;
  out.scale_down.utilization_milli = 500;
  return out;
}

/// A group of nodes n1, n2, ... of 16 CPUs with one pod each.
class ScaleDownCases : public ::testing::Test {
 protected:
  explicit ScaleDownCases(Options chosen = options()) : script_(chosen) {}

  void group(int nodes, int min = 0) {
    run("pool p types=g1 group=asg after=600");
    std::string members;
    for (int i = 1; i <= nodes; ++i) members += fmt::format(" i-{}=InService", i);
    run(fmt::format("group-seen asg min={} desired={}{}", min, nodes, members));
    for (int i = 1; i <= nodes; ++i) {
      run(fmt::format("cloud i-{0} pool=p type=g1 node=n{0} group=asg", i));
      node(i, 1);
    }
  }
  void node(int i, int pods) { run(fmt::format("node n{0} i-{0} pods={1}", i, pods)); }
  void pods(int i, std::vector<NodePod> list) {
    lines_ = script_.render(
        script_.step({NodePodsUpdated{NodeName(fmt::format("n{}", i)), false, node_pods(16, 0, std::move(list))}}));
    EXPECT_EQ(script_.complaint(), "");
  }
  void pod(int i, std::int64_t milli) { pods(i, {node_pod(fmt::format("a/{}", i), {.milli = milli})}); }
  /// The output of a step this much later.
  std::string after(Duration time) {
    script_.advance(time);
    lines_ = script_.render(script_.step({Tick{}}));
    EXPECT_EQ(script_.complaint(), "");
    return fmt::format("{}", fmt::join(lines_, "; "));
  }
  /// The instance has been terminated.
  std::string stopped(int i) { return run(fmt::format("cloud i-{0} pool=p type=g1 node=n{0} group=asg stopped=1", i)); }
  /// The output of one line of a script.
  std::string run(const std::string& line) {
    lines_ = script_.render(script_.step(script_.commands(line)));
    EXPECT_EQ(script_.complaint(), "");
    return fmt::format("{}", fmt::join(lines_, "; "));
  }
  [[nodiscard]] std::string explanation() {
    std::string out;
    for (const auto& line : script_.engine().explain(script_.now())) out += line + "\n";
    return out;
  }
  Script script_;
  std::vector<std::string> lines_;
};

// S-160: scale-down-unneeded-time
TEST_F(ScaleDownCases, ANodeIsDrainedAfterItWasNotNeededForTheTimeOfItsGroup) {
  group(2);
  pod(1, 1000);
  pod(2, 12'000);
  EXPECT_EQ(after(599s), "");
  EXPECT_EQ(after(1s), "drain n1 ScaleDown");
  EXPECT_EQ(run("node n1 i-1 pods=1 cordoned"), "");
  EXPECT_EQ(run("node n1 i-1 cordoned"), "terminate i-1 i-1 in asg; group asg 1");
}

// S-160: a pod at 5 min resets the timer
TEST_F(ScaleDownCases, ANodeThatWasNeededInBetweenStartsItsTimeAgain) {
  group(2);
  pod(1, 1000);
  pod(2, 12'000);
  EXPECT_EQ(after(300s), "");
  pod(1, 9000);
  pod(1, 1000);
  EXPECT_EQ(after(599s), "");
  EXPECT_EQ(after(1s), "drain n1 ScaleDown");
}

TEST_F(ScaleDownCases, TheTimeOfANodeSurvivesARestart) {
  group(2);
  pod(1, 1000);
  pod(2, 12'000);
  EXPECT_EQ(script_.engine().tables().scale_down.unneeded.size(), 1U);
  EXPECT_EQ(script_.engine().tables().node_pods.size(), 2U);
}

TEST_F(ScaleDownCases, ANodeWithAGangStays) {
  group(2);
  pod(1, 1000);
  pod(2, 12'000);
  run("runs w/1 n1");
  EXPECT_EQ(after(600s), "");
  EXPECT_NE(explanation().find("node n1 is needed: w/1 runs on it"), std::string::npos) << explanation();
}

TEST_F(ScaleDownCases, ADrainThatDoesNotEndIsGivenUpAndNothingIsRemovedForAWhile) {
  group(3);
  pod(1, 1000);
  pod(2, 2000);
  pod(3, 9000);
  EXPECT_EQ(after(600s), "drain n1 ScaleDown");
  run("node n1 i-1 pods=1 cordoned");
  EXPECT_EQ(after(12min - 1s), "");
  EXPECT_EQ(after(1s), "lifted n1");
  EXPECT_EQ(run("node n1 i-1 pods=1"), "");
  EXPECT_EQ(after(3min - 1s), "");
  EXPECT_EQ(after(1s), "drain n2 ScaleDown");  // n1 was needed meanwhile, so its time starts again
}

TEST_F(ScaleDownCases, OneNodeWithPodsIsDrainedAtATime) {
  group(3);
  pod(1, 1000);
  pod(2, 2000);
  pod(3, 9000);
  EXPECT_EQ(after(600s), "drain n1 ScaleDown");
  run("node n1 i-1 pods=1 cordoned");
  EXPECT_EQ(after(60s), "");
  EXPECT_NE(explanation().find("node n2 is not needed and stays: 1 nodes are removed already"), std::string::npos)
      << explanation();
  EXPECT_EQ(run("node n1 i-1 cordoned"), "terminate i-1 i-1 in asg; group asg 2");
  EXPECT_EQ(stopped(1), "claim i-1 Gone i-1 stopped=1; drain n2 ScaleDown");
}

TEST_F(ScaleDownCases, TheMinimumOfTheGroupIsKept) {
  group(2, 2);
  pod(1, 1000);
  pod(2, 12'000);
  EXPECT_EQ(after(1h), "");
  EXPECT_NE(explanation().find("group asg has its minimum of 2 instances"), std::string::npos) << explanation();
  EXPECT_EQ(run("group-seen asg min=1 desired=2 i-1=InService i-2=InService"), "drain n1 ScaleDown");
}

TEST_F(ScaleDownCases, EmptyNodesOfAGroupGoByTheSameRules) {
  group(3, 1);
  for (int i = 1; i <= 3; ++i) {
    node(i, 0);
    pods(i, {});
  }
  EXPECT_EQ(after(599s), "");
  EXPECT_EQ(after(1s), "drain n1 Empty; drain n2 Empty");
}

// Its pods would move twice.
TEST_F(ScaleDownCases, ANodeThatIsConsolidatedIsNoDestination) {
  group(2);
  run("pool q types=g1");
  run("cloud i-3 pool=q type=g1 node=n3");
  node(3, 1);
  pod(1, 1000);
  pod(2, 15'500);
  pod(3, 1000);
  Claim claim = *script_.engine().tables().claims.find(ClaimName("i-3"));
  claim.life.disruption = kUnderutilized;
  script_.engine().mutable_tables().claims.restore(ClaimName("i-3"), claim);
  EXPECT_EQ(after(600s), "");
  EXPECT_NE(explanation().find("node n1 is needed: pod a/1 fits no other node"), std::string::npos) << explanation();
  claim.life.disruption.clear();
  script_.engine().mutable_tables().claims.restore(ClaimName("i-3"), claim);
  EXPECT_EQ(after(1s), "");
  EXPECT_EQ(after(600s), "drain n1 ScaleDown");
}

// A rebalance of zones launches first: the instance that leaves is neither removed again nor a destination.
TEST_F(ScaleDownCases, ARebalanceOfZonesIsTolerated) {
  group(2);
  pod(1, 1000);
  pod(2, 1000);
  run("group-seen asg desired=2 i-1=InService i-2=Terminating:Wait");
  EXPECT_EQ(after(600s), "");
  EXPECT_NE(explanation().find("node n1 is needed: pod a/1 fits no other node"), std::string::npos) << explanation();
}

class Delays : public ScaleDownCases {
 protected:
  Delays() : ScaleDownCases(with_delays()) {}
  static Options with_delays() {
    Options out = options();
    out.scale_down.delay_after_delete = 5min;
    out.scale_down.max_drains = 1;
    return out;
  }
};

TEST_F(Delays, AfterARemovalNothingIsRemovedForATime) {
  group(3);
  pod(1, 1000);
  pod(2, 2000);
  pod(3, 9000);
  EXPECT_EQ(after(600s), "drain n1 ScaleDown");
  EXPECT_EQ(run("node n1 i-1 cordoned"), "terminate i-1 i-1 in asg; group asg 2");
  EXPECT_EQ(stopped(1), "claim i-1 Gone i-1 stopped=1");
  EXPECT_EQ(after(299s), "");
  EXPECT_EQ(after(1s), "drain n2 ScaleDown");
}

class AfterAdd : public ScaleDownCases {
 protected:
  AfterAdd() : ScaleDownCases(with_delay()) {}
  static Options with_delay() {
    Options out = options();
    out.scale_down_delay = 10min;
    return out;
  }
};

// S-159: scale-down-delay-after-add
TEST_F(AfterAdd, AfterALaunchNothingIsRemovedForATime) {
  group(2);
  pod(1, 1000);
  pod(2, 12'000);
  after(120s);
  run("want w/1 1x1");
  EXPECT_EQ(lines_, (std::vector<std::string>{"promise w/1 by=360 p-00001", "group asg 3"}));
  run("unwant w");
  EXPECT_EQ(after(599s).find("drain"), std::string::npos);
  EXPECT_NE(after(1s).find("drain n1 ScaleDown"), std::string::npos);
}

class Protection : public ScaleDownCases {
 protected:
  Protection() : ScaleDownCases(protects()) {}
  static Options protects() {
    Options out;
    out.scale_in_protection = true;
    return out;
  }
};

TEST_F(Protection, AnInstanceWithAGangIsProtectedAsLongAsTheGangRuns) {
  group(2);
  EXPECT_EQ(run("runs w/1 n1"), "protect i-1 in asg");
  EXPECT_EQ(after(10s), "");
  EXPECT_EQ(run("released w/1"), "unprotect i-1 in asg");
}

TEST_F(Protection, AProtectionThatIsLostIsRequestedAgain) {
  group(1);
  EXPECT_EQ(run("runs w/1 n1"), "protect i-1 in asg");
  EXPECT_EQ(after(2min), "protect i-1 in asg");
}

TEST_F(Protection, OfAPodThatMayNotBeEvicted) {
  group(1);
  NodePod pod = node_pod("a/1", {.milli = 100});
  pod.safe_to_evict = false;
  pods(1, {pod});
  EXPECT_EQ(lines_, std::vector<std::string>{"protect i-1 in asg"});
  pods(1, {});
  EXPECT_EQ(lines_, std::vector<std::string>{"unprotect i-1 in asg"});
}

TEST(GroupMinimum, AnEmptyNodeOfAGroupAtItsMinimumStays) {
  expect(R"(
    pool p types=a8 group=asg after=60
    group-seen asg min=1 desired=2 i-1=InService i-2=InService
    cloud i-1 pool=p type=a8 node=n1 group=asg
    => group asg 1
    cloud i-2 pool=p type=a8 node=n2 group=asg
    => group asg 2
    node n1 i-1 | node n2 i-2
    tick 60
    => drain n1 Empty
    node n1 i-1 cordoned
    => terminate i-1 i-1 in asg
    => group asg 1
    tick 600
  )");
}

}  // namespace scale_down_cases_test
}  // namespace qm::autoscaler::testing
