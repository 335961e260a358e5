// Launches that are planned together for pods of several workloads, as text tables: see script.hpp for the commands.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace qm::autoscaler::testing {
namespace joint_cases_test {

TEST(Joint, WorkloadsShareALargerInstanceThatCostsLess) {
  // Four times 1 USD, and 3.90 USD for all.
  expect(R"(
    pool p types=g1,g4 markets=spot,od zones=za
    price g4 za 3.9 | price g1 za 1 | want a/1 1x1 | want b/1 1x1 | want c/1 1x1 | want d/1 1x1
    => price g4 za 3.90
    => price g1 za 1.00
    => launch p-00001 g4 spot za
    => promise a/1 by=240 p-00001
    => promise b/1 by=240 p-00001
    => promise c/1 by=240 p-00001
    => promise d/1 by=240 p-00001
  )");
  // Three of them use 3 USD of small instances.
  expect(R"(
    pool p types=g1,g4 markets=spot,od zones=za
    price g4 za 3.9 | price g1 za 1 | want a/1 1x1 | want b/1 1x1 | want c/1 1x1
    => price g4 za 3.90
    => price g1 za 1.00
    => launch p-00001 g1 on-demand za
    => launch p-00002 g1 on-demand za
    => launch p-00003 g1 on-demand za
    => promise a/1 by=240 p-00001
    => promise b/1 by=240 p-00002
    => promise c/1 by=240 p-00003
  )");
}

TEST(Joint, PodsThatARunningGangLacksShareInstancesWithSinglePods) {
  expect(R"(
    pool p types=h8
    want w/1 3x2 runs | want v/1 1x2
    => launch p-00001 h8 on-demand
    => promise v/1 by=240 p-00001
    => promise w/1 by=240 p-00001
  )");
}

TEST(Joint, ASinglePodUsesTheRestOfTheInstanceOfAGang) {
  expect(R"(
    pool p types=h8
    want w/1 3x2 prio=1 | want v/1 1x2
    => launch p-00001 h8 on-demand
    => promise w/1 by=240 p-00001
    => promise v/1 by=240 p-00001
  )");
}

TEST(Joint, PriorityDecidesIfALimitIsExceeded) {
  expect(R"(
    pool p types=g1 gpus=2
    want a/1 1x1 | want b/1 1x1 prio=5 | want c/1 1x1 prio=9
    => launch p-00001 g1 on-demand
    => launch p-00002 g1 on-demand
    => promise c/1 by=240 p-00001
    => promise b/1 by=240 p-00002
  )");
}

TEST(Joint, HeavierPoolIsFirstAndOthersGetTheRest) {
  expect(R"(
    pool expensive types=g4 weight=9 label=team=red
    pool cheap types=g1
    want a/1 1x1 | want b/1 1x1 | want c/1 1x4 model=L4 | want d/1 1x8
    => launch expensive-00001 g4 on-demand
    => launch expensive-00002 g4 on-demand
    => promise a/1 by=240 expensive-00001
    => promise b/1 by=240 expensive-00001
    => promise c/1 by=240 expensive-00002
  )");
}

TEST(Joint, PodsThatMayNotShareAHostGetInstancesOfTheirOwn) {
  expect(R"(
    pool p types=g4
    want a/1 1x1 apart=web | want b/1 1x1 apart=web | want c/1 1x1
    => launch p-00001 g4 on-demand
    => launch p-00002 g4 on-demand
    => promise a/1 by=240 p-00001
    => promise b/1 by=240 p-00002
    => promise c/1 by=240 p-00002
  )");
}

TEST(Joint, PodsAreSpreadOverZones) {
  expect(R"(
    pool p types=g4 zones=za,zb
    want a/1 1x1 spread=web | want b/1 1x1 spread=web
    => launch p-00001 g4 on-demand za
    => launch p-00002 g4 on-demand zb
    => promise a/1 by=240 p-00001
    => promise b/1 by=240 p-00002
  )");
}

TEST(Joint, LabelsOfTheNodePoolFollowThePods) {
  expect(R"(
    pool p types=g4 rule=team=red,blue
    want a/1 1x1 select=team=red | want b/1 1x1 select=team=blue | want c/1 1x1 select=team=red
    => launch p-00001 g4 on-demand team=red
    => launch p-00002 g4 on-demand team=blue
    => promise a/1 by=240 p-00001
    => promise b/1 by=240 p-00002
    => promise c/1 by=240 p-00001
  )");
}

TEST(Joint, DaemonSetsCount) {
  // 1,930 milli-cores less 600 fit no pod of 1,500; 3,920 less 600 fit two.
  expect(R"(
    pool p types=c2,c4
    daemonset kube-system/a milli=300 | daemonset kube-system/b milli=300
    want a/1 1x0 milli=1500 | want b/1 1x0 milli=1500
    => launch p-00001 c4 on-demand
    => promise a/1 by=240 p-00001
    => promise b/1 by=240 p-00001
  )");
}

TEST(Joint, NodePriceFavorsFewerInstances) {
  Options options;
  options.node_price = Money::nano(500'000'000);
  Script script(options);
  EXPECT_EQ(script.run(R"(
    pool p types=g1,g4
    want a/1 1x1 | want b/1 1x1 | want c/1 1x1 | want d/1 1x1
    => launch p-00001 g4 on-demand
    => promise a/1 by=240 p-00001
    => promise b/1 by=240 p-00001
    => promise c/1 by=240 p-00001
    => promise d/1 by=240 p-00001
  )"),
            "")
      << "4 x 1.50 USD/h, and 5.50 USD/h for all";
}

TEST(Joint, OfferingWithoutCapacityIsNotPlanned) {
  expect(R"(
    pool p types=g4 zones=za,zb
    want x/1 1x4
    => launch p-00001 g4 on-demand za
    => promise x/1 by=240 p-00001
    unwant x
    ice p-00001 | want a/1 1x2 | want b/1 1x2
    => claim p-00001 Failed
    => launch p-00002 g4 on-demand zb
    => promise a/1 by=240 p-00002
    => promise b/1 by=240 p-00002
  )");
}

// The first instance of g1 did not become ready: others are preferred at any price, and the pods still share them.
TEST(Joint, ATypeWithAFaultIsAvoidedAndTheOthersArePlannedTogether) {
  expect(R"(
    pool p types=g1,g4
    want x/1 1x1
    => launch p-00001 g1 on-demand
    => promise x/1 by=240 p-00001
    launched p-00001 i-1
    tick 900
    => launch p-00002 g4 on-demand
    => promise x/1 by=1140 p-00002
    => terminate p-00001 i-1
    unwant x | want a/1 1x4 | want b/1 1x2 | want c/1 1x2
    => launch p-00003 g4 on-demand
    => promise a/1 by=1140 p-00002
    => promise b/1 by=1140 p-00003
    => promise c/1 by=1140 p-00003
  )");
}

TEST(Joint, ATypeWithOneFaultIsTheLastResort) {
  expect(R"(
    pool p types=g1
    want x/1 1x1
    => launch p-00001 g1 on-demand
    => promise x/1 by=240 p-00001
    launched p-00001 i-1 | unwant x
    tick 900
    => withdrawn x/1
    => terminate p-00001 i-1
    want a/1 1x1 | want b/1 1x1
    => launch p-00002 g1 on-demand
    => launch p-00003 g1 on-demand
    => promise a/1 by=1140 p-00002
    => promise b/1 by=1140 p-00003
  )");
}

TEST(Joint, AClaimHasTheResourcesOfAllItsPods) {
  Script script;
  EXPECT_EQ(script.run(R"(
    pool p types=g4
    want a/1 1x0 milli=1000 | want b/1 1x2
    => launch p-00001 g4 on-demand
    => promise a/1 by=240 p-00001
    => promise b/1 by=240 p-00001
  )"),
            "");
  EXPECT_EQ(script.engine().tables().claims.find(ClaimName("p-00001"))->life.resources,
            std::vector<std::string>{"nvidia.com/gpu"})
      << "the first pod requests none";
}

TEST(Joint, AtMostTheInstancesOfOneStep) {
  Options options;
  options.max_launches = 2;
  Script script(options);
  EXPECT_EQ(script.run(R"(
    pool p types=g1
    want a/1 1x1 | want b/1 1x1 | want c/1 1x1 prio=7
    => launch p-00001 g1 on-demand
    => launch p-00002 g1 on-demand
    => promise c/1 by=240 p-00001
    => promise a/1 by=240 p-00002
    tick 1
    => launch p-00003 g1 on-demand
    => promise b/1 by=241 p-00003
  )"),
            "");
}

TEST(Joint, ReasonHasPriceAndGap) {
  Script script;
  (void)script.run("pool p types=g1,g4\nwant a/1 1x1 | want b/1 1x1");
  const auto& claims = script.engine().tables().claims;
  ASSERT_EQ(claims.size(), 2U);
  EXPECT_EQ(claims.find(ClaimName("p-00001"))->reason,
            "for a/1: g1 on-demand at 1.00 USD/h, one of 2 for 2 pods at 2.00 USD/h, at most 0.0 % above the optimum");
}

}  // namespace joint_cases_test
}  // namespace qm::autoscaler::testing
