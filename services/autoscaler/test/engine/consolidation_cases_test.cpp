// Consolidation of nodes in use, in a simulated cluster: when nodes are drained, what is ready before, and what stops it.
#include "test/engine/consolidation_sim.hpp"
#include "test/engine/replica_rig.hpp"

#include <algorithm>
#include <random>

namespace qm::autoscaler::testing {
namespace consolidation_cases_test {

using namespace std::chrono_literals;

/// Nodes of 3.92 cores, each with two pods of 0.96: half full.
void half_full(ClusterSim& sim, int nodes) {
  sim.pool.instance_types = {"c4"};
  for (int i = 0; i < nodes; ++i) {
    const auto node = sim.add_node("c4");
    for (int k = 0; k < 2; ++k) sim.add_pod(fmt::format("web-{}-{}", i, k), node, 960);
  }
  sim.start();
}

int placed(const ClusterSim& sim) {
  return static_cast<int>(std::ranges::count_if(sim.pods, [](const auto& pod) { return !pod.second.node.empty(); }));
}

// S-173: three nodes at 50 % become two.
TEST(Consolidation, ThreeHalfFullNodesBecomeTwo) {
  ClusterSim sim;
  sim.pool.budgets = {{"100%", {}, {}, {}}};
  half_full(sim, 3);
  EXPECT_NEAR(sim.price(), 0.576, 1e-9);
  sim.run(40s);
  EXPECT_EQ(sim.count("drain"), 0) << "30 s without a change of pods, and 15 s until it is validated";
  sim.run(10min);
  EXPECT_EQ(sim.nodes.size(), 2U);
  EXPECT_NEAR(sim.price(), 0.384, 1e-9);
  EXPECT_EQ(placed(sim), 6);
  EXPECT_EQ(sim.count("drain"), 1);
  EXPECT_EQ(sim.launches, 0);
  sim.run(2h, 60s);
  EXPECT_EQ(sim.count("drain"), 1) << "nothing is left to do";
}

// S-173: where replacements are launched, all of them are ready before a node is drained. One node with four GPUs becomes
// two with one each.
TEST(Consolidation, ReplacementsAreReadyBeforeTheDrain) {
  ClusterSim sim;
  sim.pool.instance_types = {"g1", "g4"};
  const auto big = sim.add_node("g4");
  sim.add_pod("serve-0", big, 1000, 1);
  sim.add_pod("serve-1", big, 1000, 1);
  sim.start();
  EXPECT_NEAR(sim.price(), 5, 1e-9);
  sim.run(10min);
  EXPECT_EQ(sim.count("launch g1 consolidated"), 2);
  EXPECT_EQ(sim.count("ready"), 2);
  EXPECT_GT(sim.at("drain " + big), sim.at("ready n3"));
  EXPECT_GT(sim.at("ready n3"), sim.at("ready n2"));
  EXPECT_GT(sim.at("terminate " + big), sim.at("drain " + big));
  EXPECT_EQ(sim.nodes.size(), 2U);
  EXPECT_NEAR(sim.price(), 2, 1e-9);
  EXPECT_EQ(placed(sim), 2);
  EXPECT_EQ(sim.tables().consolidations.size(), 0U);
}

// S-204: three replicas on three nodes, of which two must be ready; the consolidation of all three nodes never has fewer.
TEST(Consolidation, ADisruptionBudgetOfPodsIsKept) {
  ClusterSim sim;
  sim.pool.instance_types = {"g1", "g4"};
  sim.pool.budgets = {{"100%", {}, {}, {}}};
  for (int i = 0; i < 3; ++i)
    sim.add_pod(fmt::format("inference-{}", i), sim.add_node("g4"), 1000, 1, "inference-server");
  sim.least_ready["inference-server"] = 2;
  sim.start();
  sim.run(20s);
  sim.watched = "inference-server";
  sim.run(2h);
  EXPECT_EQ(sim.fewest_ready, 2) << "one at a time";
  EXPECT_EQ(sim.ready_of("inference-server"), 3);
  EXPECT_LE(sim.price(), 5) << "three on one node, or on three small ones";
  EXPECT_GE(sim.count("drain"), 2);
}

TEST(Consolidation, TheBudgetOfTheNodePoolIsKept) {
  ClusterSim sim;
  sim.pool.budgets = {{"0", {}, {}, {"Underutilized"}}};
  half_full(sim, 3);
  sim.run(1h, 30s);
  EXPECT_EQ(sim.count("drain"), 0);
  sim.pool.budgets = {{"1", {}, {}, {"Underutilized"}}, {"0", {}, {}, {"Drifted"}}};
  sim.step({PoolsApplied{{sim.pool}}});
  sim.run(10min);
  EXPECT_EQ(sim.nodes.size(), 2U);
}

TEST(Consolidation, APoolThatConsolidatesEmptyNodesOnlyKeepsItsNodes) {
  ClusterSim sim;
  sim.pool.consolidate_underutilized = false;
  half_full(sim, 3);
  sim.run(1h, 30s);
  EXPECT_EQ(sim.count("drain"), 0);
}

// The report from the field for nodes in use: pods that must stay are bound before the drain is seen.
TEST(Consolidation, APodThatMustStayAndArrivesWithTheDrainKeepsItsNode) {
  ClusterSim sim;
  sim.pool.budgets = {{"100%", {}, {}, {}}};
  half_full(sim, 3);
  sim.run(40s);
  while (sim.count("drain") == 0) sim.run(5s, 1s);
  const auto drained = std::ranges::find_if(sim.nodes, [](const auto& node) { return node.second.cordoned; });
  ASSERT_NE(drained, sim.nodes.end());
  const std::string node = drained->first;
  sim.add_pod("train", node, 960, 0, "train");
  sim.pods["train"].must_stay = true;
  sim.publish();
  EXPECT_EQ(sim.count("lifted " + node), 1);
  sim.run(3h, 60s);
  EXPECT_EQ(sim.count("terminate " + node), 0);
  EXPECT_TRUE(sim.nodes.contains(node));
}

// Validation before execution: pods that change within 15 s stop it, and nothing was drained.
TEST(Consolidation, AChangeBeforeTheValidationStopsIt) {
  ClusterSim sim;
  sim.pool.budgets = {{"100%", {}, {}, {}}};
  half_full(sim, 3);
  while (sim.tables().consolidations.size() == 0) sim.run(5s, 1s);
  EXPECT_NE(
      sim.script.engine().explain(sim.script.now()).back().find("is validated: 1 nodes at 0.19 USD/h may become 0"),
      std::string::npos);
  for (int i = 0; i < 4; ++i) sim.add_pod(fmt::format("more-{}", i), "", 960);
  sim.run(14s, 1s);
  EXPECT_EQ(sim.count("drain"), 0);
  sim.run(1h, 30s);
  EXPECT_EQ(sim.count("drain"), 0) << "the nodes are fuller now";
  EXPECT_EQ(sim.tables().consolidations.size(), 0U);
}

// A node that expires while its consolidation is validated is replaced once, for that reason alone.
TEST(Consolidation, ANodeThatIsDisruptedForAnotherReasonEndsIt) {
  ClusterSim sim;
  sim.pool.instance_types = {"g1", "g4"};
  sim.add_pod("serve", sim.add_node("g4"), 1000, 1);
  sim.start();
  while (sim.tables().consolidations.size() == 0) sim.run(5s, 1s);
  const ClaimName name("p-n1");
  Claim claim = *sim.tables().claims.find(name);
  claim.life.expire_after = sim.script.now() - claim.requested;
  sim.script.engine().mutable_tables().claims.restore(name, claim);
  sim.run(20s, 1s);
  const Claim& expired = *sim.tables().claims.find(name);
  EXPECT_EQ(expired.life.disruption, "Expired");
  EXPECT_EQ(sim.tables().consolidations.size(), 0U);
  EXPECT_EQ(sim.launches, 1);
  ASSERT_EQ(sim.booting.size(), 1U);
  EXPECT_EQ(expired.life.replaced_by, sim.booting.begin()->first);
  sim.run(5min);
  EXPECT_EQ(sim.count("drain n1"), 1);
  EXPECT_EQ(sim.count("terminate n1"), 1);
}

// The scale-down of groups removes these nodes, by the flags of Cluster Autoscaler.
TEST(Consolidation, NodesOfAGroupAreNotConsolidated) {
  ClusterSim sim;
  sim.pool.budgets = {{"100%", {}, {}, {}}};
  sim.pool.group = "asg";
  half_full(sim, 3);
  sim.run(1h, 30s);
  EXPECT_EQ(sim.count("drain"), 0);
}

// What cannot be planned is not moved, and nothing is moved next to it.
TEST(Consolidation, APodWhoseConstraintsCannotBeReadKeepsItsNode) {
  ClusterSim sim;
  sim.pool.budgets = {{"100%", {}, {}, {}}};
  half_full(sim, 2);
  for (auto& [name, pod] : sim.pods) pod.readable = false;
  sim.publish();
  sim.run(1h, 30s);
  EXPECT_EQ(sim.count("drain"), 0);
}

/// A gang that trains on one GPU of a large node.
void training(ClusterSim& sim, bool saves) {
  sim.pool.instance_types = {"g1", "g4"};
  const auto node = sim.add_node("g4");
  sim.add_pod("train", node, 1000, 1, "train");
  sim.pods["train"].serves = false;
  sim.start();
  sim.step({WorkloadUpdated{WorkloadUid("train"), 1, saves, false, "team", "Job", "train"},
            AssignmentUpdated{{WorkloadUid("train"), 1}, true, {NodeName(node)}}});
}

// A gang is moved only after a checkpoint that was ordered once its replacement was ready.
TEST(Consolidation, AGangSavesBeforeItsNodeIsDrained) {
  ClusterSim sim;
  training(sim, true);
  sim.run(10min);
  EXPECT_GT(sim.at("order train"), sim.at("ready n2"));
  EXPECT_GT(sim.at("order train Acked"), sim.at("order train"));
  EXPECT_GT(sim.at("drain n1"), sim.at("order train Acked"));
  EXPECT_GT(sim.at("evict train step=7"), sim.at("drain n1"));
  EXPECT_NEAR(sim.price(), 1, 1e-9);
}

TEST(Consolidation, AGangThatDoesNotSaveKeepsItsNode) {
  ClusterSim sim;
  training(sim, true);
  sim.saves = false;
  sim.run(5min);
  EXPECT_GE(sim.at("order train Failed"), 0);
  EXPECT_EQ(sim.count("drain n1"), 0);
  EXPECT_EQ(sim.count("evict"), 0);
  EXPECT_EQ(sim.tables().consolidations.size(), 0U);
  const Claim& c = *sim.tables().claims.find(ClaimName("p-n1"));
  EXPECT_EQ(c.reason, "its consolidation was given up: team/train did not save");
  ClusterSim never;
  training(never, false);
  never.run(2h, 30s);
  EXPECT_EQ(never.launches, 0) << "it cannot save a checkpoint";
}

TEST(Consolidation, AFailedReplacementEndsItForAWhile) {
  ClusterSim sim;
  sim.pool.instance_types = {"g1", "g4"};
  sim.add_pod("serve", sim.add_node("g4"), 1000, 1);
  sim.start();
  while (sim.launches == 0) sim.run(5s);
  const ClaimName replacement = sim.booting.begin()->first;
  sim.booting.clear();
  sim.step({LaunchEnded{replacement, {}, "no capacity"}});
  EXPECT_EQ(sim.tables().consolidations.size(), 0U);
  EXPECT_TRUE(sim.tables().claims.find(ClaimName("p-n1"))->life.disruption.empty());
  sim.run(9min);
  EXPECT_EQ(sim.launches, 1);
  EXPECT_EQ(sim.count("drain"), 0);
  sim.run(10min);
  EXPECT_EQ(sim.launches, 2);
  EXPECT_EQ(sim.count("drain n1"), 1);
}

// Spot is not replaced by spot of one other type: it would walk down to the type that is interrupted most.
TEST(Consolidation, SpotIsNotReplacedByFewTypesOfSpot) {
  const auto launches = [](Duration observed, bool interrupted) {
    ClusterSim sim;
    sim.pool.instance_types = {"c2", "c4"};
    sim.pool.markets = {Market::kSpot};
    sim.add_pod("web", sim.add_node("c4", Market::kSpot), 900);
    for (const char* type : {"c2", "c4"}) {
      auto& hazard = sim.script.engine().mutable_tables().hazards;
      if (observed > Duration{0})
        hazard.restore({type, "z1"}, {type == std::string("c2") ? (interrupted ? 9 : 1) : 2, observed});
    }
    sim.step({SpotPricesUpdated{{{"c4", "z1", HourlyRate{*Money::parse_usd("0.1")}, sim.script.now()},
                                 {"c2", "z1", HourlyRate{*Money::parse_usd("0.05")}, sim.script.now()}}}});
    sim.start();
    sim.run(10min);
    return sim.launches;
  };
  EXPECT_EQ(launches(0h, false), 0) << "no hazard was observed, and one type is not fifteen";
  EXPECT_EQ(launches(200h, true), 0);
  EXPECT_EQ(launches(200h, false), 1) << "the hazard is not higher";
}

// S-231: more replicas cause NodeClaims; fewer replicas leave nodes that are consolidated.
TEST(Consolidation, NodesFollowReplicas) {
  ReplicaRig rig;
  const auto id = rig.hpa("web", queue_spec(2, 12));
  rig.metric(id, "queue", 12'000);
  rig.take_over();
  ClusterSim sim;
  sim.pool.instance_types = {"c2", "c4"};
  sim.pool.budgets = {{"100%", {}, {}, {}}};
  sim.start();
  // The Deployment: as many pods as the autoscaler wrote to spec.replicas; the newest ones end first.
  const auto follow = [&](Duration d) {
    for (Duration left = d; left > 0s; left -= 15s) {
      rig.observe();
      for (int i = 0; i < 20; ++i) {
        const std::string name = fmt::format("web-{:02}", i);
        if (i < rig.sample.replicas && !sim.pods.contains(name)) sim.add_pod(name, "", 960);
        if (i >= rig.sample.replicas) sim.pods.erase(name);
      }
      sim.run(15s);
    }
  };
  follow(15min);
  EXPECT_EQ(rig.sample.replicas, 12);
  EXPECT_EQ(placed(sim), 12);
  EXPECT_GE(sim.launches, 3);
  const double full = sim.price();
  rig.metric(id, "queue", 2'000);
  follow(40min);
  EXPECT_EQ(rig.sample.replicas, 2);
  EXPECT_EQ(placed(sim), 2);
  EXPECT_EQ(sim.nodes.size(), 1U);
  EXPECT_LE(sim.price(), full / 3);
}

// A quiet day: no pod starts or ends, and spot prices move by 10 % every half hour. No node is moved more than once, and no
// move is made again or undone.
TEST(Consolidation, OnAQuietDayNoNodeIsMovedTwice) {
  for (const unsigned seed : {1U, 2U, 3U}) {
    ClusterSim sim;
    sim.pool.instance_types = {"c2", "c4", "g1", "g4"};
    sim.pool.markets = {Market::kOnDemand, Market::kSpot};
    std::mt19937 random(seed);
    const auto prices = [&] {
      SpotPricesUpdated out;
      for (const auto& type : sim.pool.instance_types) {
        const auto base = static_cast<double>(sim.types.at(type).on_demand.per_hour.nano()) * 0.5;
        const double factor = 0.9 + 0.2 * static_cast<double>(random() % 1001) / 1000;
        out.quotes.push_back(
            {type, "z1", HourlyRate{Money::nano(static_cast<std::int64_t>(base * factor))}, sim.script.now()});
      }
      sim.step({out});
    };
    for (int i = 0; i < 10; ++i) {
      const auto node = sim.add_node(i % 3 == 0 ? "g4" : "c4", i % 2 == 0 ? Market::kSpot : Market::kOnDemand);
      for (unsigned k = 0; k < 1 + random() % 3; ++k)
        sim.add_pod(fmt::format("pod-{}-{}", i, k), node, 480 + 480 * (random() % 2), i % 3 == 0 ? 1 : 0);
    }
    prices();
    sim.start();
    for (int half_hour = 0; half_hour < 48; ++half_hour) {
      sim.run(30min, 60s);
      prices();
    }
    RecordProperty(fmt::format("moves of 10 nodes, seed {}", seed), static_cast<int>(sim.count("drain")));
    EXPECT_GT(sim.count("drain"), 0) << seed;
    EXPECT_LE(sim.count("drain"), 10) << "at most one move for each node that was there, seed " << seed;
    for (const auto& line : sim.log)
      EXPECT_EQ(std::ranges::count(sim.log, line), line.starts_with("launch") ? std::ranges::count(sim.log, line) : 1)
          << line;
    const auto moves_late = [&] {
      const auto drains = sim.count("drain");
      sim.run(1h, 60s);
      return sim.count("drain") - drains;
    };
    EXPECT_EQ(moves_late(), 0);
    for (const auto& [name, pod] : sim.pods) EXPECT_FALSE(pod.node.empty()) << name;
  }
}

}  // namespace consolidation_cases_test
}  // namespace qm::autoscaler::testing
