// Which nodes are removed, where their pods go, and which rule keeps a node.
#include "test/consolidate/problems.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler::consolidate::testing {
namespace consolidate_test {

using namespace std::chrono_literals;

/// The plan of the problem, verified; none if nothing pays.
std::optional<Plan> planned(const Problem& problem) {
  auto out = plan(problem);
  if (out) {
    const Status holds = still_holds(problem, *out);
    EXPECT_TRUE(holds) << (holds ? "" : holds.error().to_string());
  }
  return out;
}

/// Why exactly these nodes are not removed; empty if they are.
std::string why_not(const Problem& problem, const std::vector<std::size_t>& nodes) {
  const auto out = plan_removal(problem, nodes);
  return out ? "" : out.error().message;
}

/// Nodes of 4 cores at 1 USD/h, each with two pods of a core.
ClusterOf half_full(int nodes) {
  ClusterOf out;
  out.pool("p");
  const auto kind = out.kind(1000, 0, "web");
  for (int i = 0; i < nodes; ++i) {
    const auto node = out.node(fmt::format("n{}", i), "p", 4, 1);
    out.pod(node, kind), out.pod(node, kind);
  }
  return out;
}

// S-173
TEST(Consolidate, ThreeHalfFullNodesBecomeTwo) {
  const auto cluster = half_full(3);
  const auto out = planned(cluster.problem);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->removed.size(), 1U);
  EXPECT_EQ(out->moves.size(), 2U);
  EXPECT_TRUE(out->launches.empty());
  EXPECT_EQ(out->before, usd(1));
  EXPECT_EQ(out->after, Money());
  EXPECT_LT(out->value, usd(1)) << "restarts cost something";
}

TEST(Consolidate, SeveralNodesAreRemovedAtOnce) {
  const auto out = planned(half_full(8).problem);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->removed.size(), 4U);
  EXPECT_EQ(out->moves.size(), 8U);
}

TEST(Consolidate, AFullClusterStays) {
  ClusterOf cluster;
  cluster.pool("p");
  const auto kind = cluster.kind(4000);
  for (const char* name : {"n0", "n1"}) cluster.pod(cluster.node(name, "p", 4, 1), kind);
  EXPECT_FALSE(plan(cluster.problem));
  EXPECT_EQ(why_not(cluster.problem, {0}), "no running node admits pod default/pod-1, nor does a cheaper new one");
}

// A node that is too large is undone into several small ones: Karpenter has at most one replacement.
TEST(Consolidate, OneNodeBecomesSeveralThatCostLess) {
  ClusterOf cluster;
  cluster.pool("p");
  cluster.type("g5.xlarge", 4, 1, 1);
  const auto kind = cluster.kind(3000, 1);
  const auto node = cluster.node("big", "p", 192, 16, 8);
  for (int i = 0; i < 3; ++i) cluster.pod(node, kind);
  const auto out = planned(cluster.problem);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->removed, std::vector<std::size_t>{node});
  EXPECT_EQ(out->launches.size(), 3U);
  EXPECT_EQ(out->after, usd(3));
}

// Neither node alone has a cheaper replacement; both together do.
TEST(Consolidate, TwoNodesBecomeOne) {
  ClusterOf cluster;
  cluster.pool("p");
  cluster.type("8-cores", 8, 1.5);
  const auto kind = cluster.kind(3500);
  for (const char* name : {"n0", "n1"}) cluster.pod(cluster.node(name, "p", 4, 1), kind);
  const auto out = planned(cluster.problem);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->removed, (std::vector<std::size_t>{0, 1}));
  ASSERT_EQ(out->launches.size(), 1U);
  EXPECT_EQ(out->launches[0].pods.size(), 2U);
}

TEST(Consolidate, PodsThatArePendingGetFreeCapacityFirst) {
  auto cluster = half_full(2);
  ASSERT_TRUE(planned(cluster.problem));
  for (int i = 0; i < 4; ++i) {
    Pod pod;
    pod.name = fmt::format("pending-{}", i);
    cluster.problem.pending.push_back(pod);
  }
  EXPECT_FALSE(plan(cluster.problem));
}

TEST(Keeps, AHeldNodeAndOneThatTakesNoPods) {
  auto cluster = half_full(3);
  for (auto& node : cluster.problem.nodes) node.held = "pod default/a has the annotation";
  EXPECT_FALSE(plan(cluster.problem));
  EXPECT_EQ(why_not(cluster.problem, {1}), "node n1: pod default/a has the annotation");
  cluster.problem.nodes[1].held.clear();
  ASSERT_TRUE(planned(cluster.problem));
  cluster.problem.nodes[0].accepts = cluster.problem.nodes[2].accepts = false;
  EXPECT_FALSE(plan(cluster.problem));
}

TEST(Keeps, TheBudgetOfThePool) {
  auto cluster = half_full(8);
  cluster.problem.pools[0].disruptions = 2;
  const auto out = planned(cluster.problem);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->removed.size(), 2U);
  cluster.problem.pools[0].disruptions = 0;
  EXPECT_FALSE(plan(cluster.problem));
  EXPECT_EQ(why_not(cluster.problem, {0}),
            "the budget of NodePool p allows 0 more disruptions, and 1 nodes would be removed");
}

// S-204: of three nodes with a replica each, one at a time, because the budget allows one eviction.
TEST(Keeps, APodDisruptionBudget) {
  auto cluster = half_full(6);
  for (std::size_t i = 0; i < 3; ++i) cluster.problem.nodes[i].pods[0].budget = "default/inference-server";
  cluster.problem.evictions["default/inference-server"] = 1;
  EXPECT_EQ(why_not(cluster.problem, {0, 1}),
            "PodDisruptionBudget default/inference-server allows 1 evictions, and 2 nodes with its pods would be "
            "removed");
  const auto out = planned(cluster.problem);
  ASSERT_TRUE(out);
  EXPECT_LE(std::ranges::count_if(out->removed, [](std::size_t node) { return node < 3; }), 1);
  EXPECT_EQ(why_not(cluster.problem, {0}), "");
}

// The value of a move is the saving minus lost work: a checkpoint makes it pay.
TEST(Pays, OnlyIfLittleWorkIsLost) {
  ClusterOf cluster;
  cluster.pool("p");
  cluster.type("g5.xlarge", 4, 1, 1);
  const auto node = cluster.node("big", "p", 192, 16, 8);
  Pod& pod = cluster.pod(node, cluster.kind(3000, 1));
  pod.lost = 5min;
  ASSERT_TRUE(planned(cluster.problem));
  pod.lost = 10h;
  EXPECT_EQ(why_not(cluster.problem, {node}), "it saves 15.0000 USD/h, and lost work and restarts cost 20.0333 USD");
}

TEST(Pays, AReplacementSavesAtLeastTheThreshold) {
  ClusterOf cluster;
  cluster.pool("p");
  cluster.type("other", 4, 0.9);
  const auto node = cluster.node("n0", "p", 4, 1);
  cluster.pod(node, cluster.kind(100));
  EXPECT_FALSE(plan(cluster.problem)) << "10 % are within the movement of prices";
  cluster.problem.pools[0].types[0].offerings[0].price = 0.8;
  EXPECT_TRUE(planned(cluster.problem));
}

TEST(Pays, ANodeThatAConsolidationLaunchedIsRemovedButNotReplaced) {
  ClusterOf cluster;
  cluster.pool("p");
  cluster.type("other", 4, 0.5);
  const auto node = cluster.node("n0", "p", 4, 1);
  cluster.pod(node, cluster.kind(1000));
  cluster.problem.nodes[node].fresh = true;
  EXPECT_EQ(why_not(cluster.problem, {node}), "a consolidation has launched node n0, and it is not replaced again");
  (void)cluster.node("n1", "p", 4, 1);
  cluster.problem.nodes[1].held = "it is empty";
  EXPECT_TRUE(planned(cluster.problem));
}

TEST(Launches, NoneOfTheKindThatIsRemoved) {
  ClusterOf cluster;
  cluster.pool("p");
  cluster.type("4-core", 4, 1);
  const auto kind = cluster.kind(1000);
  for (const char* name : {"n0", "n1"}) {
    const auto node = cluster.node(name, "p", 4, 1);
    cluster.pod(node, kind);
    cluster.problem.nodes[node].accepts = false;
  }
  EXPECT_EQ(why_not(cluster.problem, {0, 1}), "node n0 would be replaced by one of its own kind");
}

TEST(Launches, StayWithinTheLimitsOfThePool) {
  ClusterOf cluster;
  cluster.pool("p").left = {{"cpu", 7000}};
  cluster.type("4-cores", 4, 1);
  const auto node = cluster.node("n0", "p", 32, 16);
  for (int i = 0; i < 2; ++i) cluster.pod(node, cluster.kind(3000));
  EXPECT_EQ(why_not(cluster.problem, {node}), "NodePool p has 7000 of cpu left, and the replacements use 8000");
  cluster.problem.pools[0].left = {{"nodes", 1}};
  EXPECT_EQ(why_not(cluster.problem, {node}), "NodePool p has 1 of nodes left, and the replacements use 2");
  cluster.problem.pools[0].left = {{"nodes", 2}, {"cpu", 8000}};
  EXPECT_TRUE(planned(cluster.problem));
}

/// A spot node at 1 USD/h with one small pod, and `types` spot types at 0.2 USD/h.
ClusterOf on_spot(int types, std::optional<double> hazard) {
  ClusterOf out;
  out.pool("p");
  for (int i = 0; i < types; ++i) out.type(fmt::format("t{}", i), 4, 0.2 + 0.001 * i, 0, "spot", hazard);
  const auto node = out.node("n0", "p", 4, 1);
  out.problem.nodes[node].spot = true;
  out.problem.nodes[node].hazard = 0.01;
  out.pod(node, out.kind(1000));
  return out;
}

TEST(Spot, ReplacesSpotIfFifteenTypesAreCheaper) {
  EXPECT_EQ(why_not(on_spot(14, {}).problem, {0}),
            "14 spot types are cheaper, and spot replaces spot with 15, or with a hazard that is not higher");
  EXPECT_TRUE(planned(on_spot(15, {}).problem));
  auto fits_few = on_spot(15, {});
  fits_few.problem.pools[0].types[3].cpu_milli = 500;  // too small for the pod
  EXPECT_NE(why_not(fits_few.problem, {0}), "");
}

TEST(Spot, ReplacesSpotIfItIsInterruptedNotMoreOften) {
  EXPECT_TRUE(planned(on_spot(1, 0.01).problem));
  EXPECT_FALSE(plan(on_spot(1, 0.011).problem));
  auto unknown = on_spot(1, 0.001);
  unknown.problem.nodes[0].hazard.reset();
  EXPECT_FALSE(plan(unknown.problem)) << "of a hazard that was not observed nothing follows";
}

// Rules between pods count the pods of running nodes too.
TEST(Rules, PodsThatExcludeOneAnotherStayApart) {
  ClusterOf cluster;
  cluster.pool("p");
  const auto kind = cluster.kind(1000, 0, "db");
  kube_rules::PodTerm apart;
  apart.topology_key = "kubernetes.io/hostname";
  apart.pods = LabelSelector{{{"app", LabelRequirement::Op::kIn, {"db"}}}};
  cluster.problem.kinds[kind].rules.rules.anti_affinity = {apart};
  for (const char* name : {"n0", "n1", "n2"}) cluster.pod(cluster.node(name, "p", 4, 1), kind);
  EXPECT_FALSE(plan(cluster.problem));
  (void)cluster.node("n3", "p", 4, 1);
  cluster.problem.nodes[3].held = "it is empty";
  const auto out = planned(cluster.problem);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->removed.size(), 1U);
  EXPECT_EQ(out->moves[0].to, 3U);
}

TEST(StillHolds, NotAfterTheClusterHasChanged) {
  auto cluster = half_full(3);
  const auto out = planned(cluster.problem);
  ASSERT_TRUE(out);
  const auto why = [&](const Problem& problem, const Plan& plan) {
    const Status holds = still_holds(problem, plan);
    return holds ? std::string() : holds.error().message;
  };
  auto more = cluster;
  more.pod(out->removed[0], 0);
  EXPECT_EQ(why(more.problem, *out), "pod default/pod-7 has no place");
  auto full = cluster;
  for (int i = 0; i < 2; ++i) full.pod(out->moves[0].to, 0);
  EXPECT_NE(why(full.problem, *out).find("does not admit pod"), std::string::npos);
  auto cheaper = cluster;
  cheaper.problem.nodes[out->removed[0]].per_hour = usd(0.5);
  EXPECT_NE(why(cheaper.problem, *out).find("the sums are"), std::string::npos);
  auto twice = *out;
  twice.moves.push_back(twice.moves[0]);
  EXPECT_NE(why(cluster.problem, twice).find("has two places"), std::string::npos);
}

}  // namespace consolidate_test
}  // namespace qm::autoscaler::consolidate::testing
