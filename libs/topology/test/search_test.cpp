#include "world.hpp"

#include <gtest/gtest.h>

namespace qm::topology {
namespace search_test {

constexpr auto kCluster = R"(
  b1 r1 x1 cpu=4
  b1 r1 x2 cpu=2
  b1 r2 x3 cpu=3
  b2 r3 x4 cpu=6
  b2 r3 x5 cpu=1
)";

struct Case {
  const char* name;
  Pods pods;
  std::optional<TopologyRequest> topology;
  const char* expected;
};

class SearchTest : public ::testing::TestWithParam<Case> {};

TEST_P(SearchTest, OnTwoBlocks) {
  World world(kThree, kCluster);
  EXPECT_EQ(world.assign(world.pods(GetParam().pods, GetParam().topology)), GetParam().expected) << GetParam().name;
}

INSTANTIATE_TEST_SUITE_P(
    Table, SearchTest,
    ::testing::Values(
        Case{"the tightest host that fits", 3, required(kHost), "main x3:3"},
        Case{"the tightest rack that fits, in it the fewest hosts", 6, required("rack"), "main x1:4 x2:2"},
        Case{"in the tightest rack, the roomiest first and the rest where it is tight", 7, required("rack"),
             "main x4:6 x5:1"},
        Case{"no rack is large enough", 8, required("rack"),
             "main topology \"default\" allows to fit only 7 out of 8 pod(s)"},
        Case{"a block is", 8, required("block"), "main x1:4 x2:1 x3:3"},
        Case{"preferred is as required where it fits", 3, preferred(kHost), "main x3:3"},
        Case{"preferred goes up a level", 8, preferred("rack"), "main x1:4 x2:1 x3:3"},
        Case{"preferred takes several of the top", 13, preferred(kHost), "main x1:4 x2:2 x4:6 x5:1"},
        Case{"more than there is", 17, preferred("rack"),
             "main topology \"default\" allows to fit only 16 out of 17 pod(s)"},
        Case{"unconstrained pods use the fitting host with the least capacity", 2, unconstrained(), "main x2:2"},
        Case{"and of several those with the least capacity first", 7, unconstrained(), "main x1:1 x2:2 x3:3 x5:1"},
        Case{"none was asked for, one is implied", 2, std::nullopt, "main x2:2"},
        Case{"no such level", 1, required("row"), "main no requested topology level: row"},
        Case{"nothing asked for", 1, TopologyRequest{}, "main topology level not specified"},
        Case{"nothing to place", 0, required("rack"), "main"}),
    [](const auto& row) { return "Case" + std::to_string(row.index); });

class SliceTest : public ::testing::TestWithParam<Case> {};

TEST_P(SliceTest, OnTwoBlocks) {
  World world(kThree, kCluster);
  EXPECT_EQ(world.assign(world.pods(GetParam().pods, GetParam().topology)), GetParam().expected) << GetParam().name;
}

INSTANTIATE_TEST_SUITE_P(
    Table, SliceTest,
    ::testing::Values(
        Case{"slices of two on a host", 6, required("block", {{kHost, 2}}), "main x4:6"},
        Case{"a slice does not span hosts", 8, required("block", {{kHost, 2}}), "main x1:4 x2:2 x3:2"},
        Case{"too many slices", 10, required("block", {{kHost, 2}}),
             "main topology \"default\" allows to fit only 4 out of 5 slice(s)"},
        Case{"inside a slice the hosts with the least capacity are first", 6, required("block", {{"rack", 3}}),
             "main x4:5 x5:1"},
        Case{"slices alone are unconstrained", 3, slices_only({{kHost, 3}}), "main x4:3"},
        Case{"slices above what is asked for", 6, required(kHost, {{"rack", 3}}),
             "main podset slice topology rack is above the podset topology kubernetes.io/hostname"},
        Case{"no size", 6, required("block", {{"rack", 0}}),
             "main slice topology requested, but slice size not provided"},
        Case{"no such level of slices", 6, required("block", {{"row", 2}}),
             "main no requested topology level for slices: row"},
        Case{
            "slices in slices", 8, required("block", {{"rack", 4}, {kHost, 2}}),
            "main topology \"default\" doesn't allow to fit; 1/2 slice(s) fit on level rack; 4/4 slice(s) fit on level "
            "kubernetes.io/hostname"},
        Case{"slices in slices that fit", 6, required("block", {{"rack", 6}, {kHost, 2}}), "main x4:6"},
        Case{"an inner slice does not divide", 8, required("block", {{"rack", 4}, {kHost, 3}}),
             "main additional slice layer size 3 must evenly divide parent layer size 4"},
        Case{"an inner slice above the outer", 8, required("block", {{"rack", 4}, {"block", 2}}),
             "main additional slice layer topology block must be at a lower level than rack"}),
    [](const auto& row) { return "Case" + std::to_string(row.index); });

TEST(Search, BalancedSharesEvenlyOverAsFewRacksAsCanBe) {
  constexpr auto kRacks = R"(
    b1 r1 x1 cpu=20
    b1 r2 x2 cpu=10
    b2 r3 x3 cpu=15
    b2 r4 x4 cpu=15
  )";
  World world(kThree, kRacks, {.balanced = true});
  EXPECT_EQ(world.assign(world.pods(22, preferred("rack"))), "main x3:11 x4:11");
  World plain(kThree, kRacks);
  EXPECT_EQ(plain.assign(plain.pods(22, preferred("rack"))), "main x1:20 x2:2");
}

TEST(Search, BalancedThatCannotBeFallsBackToTheTightest) {
  World world(kThree, "b1 r1 x1 cpu=3\n b2 r2 x2 cpu=3", {.balanced = true});
  EXPECT_EQ(world.assign(world.pods(5, preferred("rack"))), "main x1:3 x2:2");
}

TEST(Search, BalancedThatWouldLosePodsOnTheWayDownFallsBackToo) {
  // Counted by pod r1 fits two slices of four; in pairs on a host it fits one.
  World world(kThree, "b1 r1 x1 cpu=3\n b1 r1 x2 cpu=3\n b1 r1 x3 cpu=2\n b1 r2 x4 cpu=4", {.balanced = true});
  EXPECT_EQ(world.assign(world.pods(8, preferred("block", {{"rack", 4}, {kHost, 2}}))), "main x1:2 x3:2 x4:4");
}

TEST(Search, WithoutTheMixedProfileTheUnconstrainedGoWhereItIsTight) {
  World world(kThree, kCluster, {.profile_mixed = false});
  EXPECT_EQ(world.assign(world.pods(7, unconstrained())), "main x4:6 x5:1");
}

TEST(Search, PreferencesOfNodesPrecedeFreeCapacity) {
  constexpr auto kNodes = "b1 r1 x1 cpu=8 +zone=a\n b1 r1 x2 cpu=2 +zone=b";
  for (const bool respected : {false, true}) {
    World world(kThree, kNodes, {.preferred_affinity = respected});
    auto pods = world.pods(1, required(kHost));
    pods.rules.preferred = {{10, {{{"zone", kube_rules::Requirement::Op::kIn, {"a"}}}, {}}}};
    EXPECT_EQ(world.assign(pods), respected ? "main x1:1" : "main x2:1");
    pods.count = 9;
    EXPECT_EQ(world.assign(pods), "main topology \"default\" allows to fit only 8 out of 9 pod(s)");
  }
}

TEST(Search, ReportsTheFailedConstraints) {
  World world({kHost}, R"(
    x1 cpu=4 !spot:NoSchedule
    x2 cpu=4 +zone=b
    x3 cpu=0 +zone=a
    x4 cpu=4 +zone=a +gpu=no
  )");
  auto pods = world.pods(1, required(kHost));
  pods.rules.node_selector = {{"zone", "a"}};
  pods.rules.required = {{{{{"gpu", kube_rules::Requirement::Op::kDoesNotExist, {}}}, {}}}};
  EXPECT_EQ(world.assign(pods),
            "main topology \"default\" doesn't allow to fit any of 1 pod(s). Total nodes: 4; excluded: affinity: 1, "
            "nodeSelector: 1, resource \"cpu\": 1, taint \"spot:NoSchedule\": 1");
}

TEST(Search, WhereLeavesAreRacksTheirNodesAddUp) {
  World world({"block", "rack"}, "b1 r1 cpu=2 pods=3\n b1 r1 cpu=2 pods=3 !spot:NoSchedule\n b1 r2 cpu=1");
  EXPECT_EQ(world.assign(world.pods(4, required("rack"))), "main b1,r1:4");
  EXPECT_EQ(world.assign(world.pods(5, required("block"))), "main b1,r1:4 b1,r2:1");
}

TEST(Search, PodsHaveToFitToo) {
  World world({kHost}, "x1 cpu=9 pods=2");
  EXPECT_EQ(world.assign(world.pods(3, required(kHost), "cpu=1")),
            "main topology \"default\" allows to fit only 2 out of 3 pod(s)");
}

TEST(Search, ANodeThatIsNotReadyOrLacksALevelIsNotThere) {
  ResourceNames names;
  std::vector<Node> nodes(4);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i] = {"n" + std::to_string(i), {{"rack", "r"}, {"pool", "gpu"}}, {}, {{kPods, 10}}, true, true};
  }
  nodes[0].ready = false;
  nodes[1].schedulable = false;
  nodes[2].labels.erase("rack");
  nodes[3].labels["pool"] = "cpu";
  const Topology topology(names, {"default", {"rack"}, {{"pool", "gpu"}}, {}}, nodes);
  EXPECT_EQ(topology.tree().size(), 0);
  Search search(topology, {});
  PodSetRequest pods;
  pods.count = 1;
  pods.topology = required("rack");
  const auto found = search.place(pods, nullptr, {});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message, "no topology domains at level: rack");
  EXPECT_EQ(found.error().code, Code::kExhausted);
}

TEST(Search, AnEmptyClusterStillHasThePodsOfOthers) {
  World world({kHost}, "x1 cpu=4");
  world.take("x1", "cpu=3 pods=3");
  world.topology().take_outside(world.leaf("x1"), world.requests("cpu=1 pods=1"));
  const auto pods = world.pods(3, required(kHost));
  EXPECT_EQ(world.assign({pods}, {.assumed = {}, .simulate_empty = true, .replacement = nullptr}), "main x1:3");
  EXPECT_NE(world.assign(pods), "main x1:3");
  world.topology().give_back(world.leaf("x1"), world.requests("cpu=3 pods=3"));
  EXPECT_EQ(world.assign(pods), "main x1:3");
}

}  // namespace search_test
}  // namespace qm::topology
