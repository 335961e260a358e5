// Gangs with required or preferred topology: the decision, the reason of a refusal, and random
// fleets compared with a simple count.
#include "qm/placement/topology_placement.hpp"

#include "script.hpp"

#include <gtest/gtest.h>

#include <random>

namespace qm::placement {
namespace topology_placement_test {

using testing::node_facts;
using testing::pod_set;
using testing::Script;

Options racks() {
  Options options;
  options.topology = {"block", "rack"};
  return options;
}

/// Two racks of two nodes in block b1, one rack of two in b2; and a node outside of all.
constexpr const char* kTwoBlocks = R"(
node a1 gpus=8 label=block=b1 label=rack=r1
node a2 gpus=8 label=block=b1 label=rack=r1
node b1 gpus=8 label=block=b1 label=rack=r2
node b2 gpus=8 label=block=b1 label=rack=r2
node c1 gpus=8 label=block=b2 label=rack=r1
node c2 gpus=8 label=block=b2 label=rack=r1
node x gpus=8
synced
)";

std::string published(const std::string& table) { return Script(racks()).run(kTwoBlocks + table); }

// A part of the first rack is in use: it would fit two of the four pods, so all are placed in another rack.
TEST(TopologyPlacement, RequiredIsOneDomain) {
  Script script(racks());
  ASSERT_EQ(script.run(kTwoBlocks + std::string(R"(
unmanaged s on=a1 gpus=8
want w/1 4x4 required=rack
=> reserved w/1 0:b1[0,1,2,3] 1:b1[4,5,6,7] 2:b2[0,1,2,3] 3:b2[4,5,6,7]
)")),
            "");
}

TEST(TopologyPlacement, RacksOfTwoBlocksAreDistinct) {
  Script script(racks());
  const auto answer = script.run(kTwoBlocks + std::string("want w/1 3x8 required=rack\n"));
  EXPECT_NE(answer.find("3 pods fit, but not in the requested topology"), std::string::npos) << answer;
  EXPECT_NE(answer.find("fits 2 of 3"), std::string::npos) << answer;
  EXPECT_NE(answer.find("fits in one block"), std::string::npos) << answer;
}

TEST(TopologyPlacement, PreferredFallsBackLevelByLevel) {
  Script script(racks());
  ASSERT_EQ(script.run(kTwoBlocks + std::string(R"(
want v/1 3x8 preferred=rack
=> reserved v/1 0:a1[0,1,2,3,4,5,6,7] 1:a2[0,1,2,3,4,5,6,7] 2:b1[0,1,2,3,4,5,6,7]
want w/1 2x8 preferred=rack
=> reserved w/1 0:c1[0,1,2,3,4,5,6,7] 1:c2[0,1,2,3,4,5,6,7]
want u/1 2x8 preferred=rack
=> reserved u/1 0:b2[0,1,2,3,4,5,6,7] 1:x[0,1,2,3,4,5,6,7]
)")),
            "");
}

TEST(TopologyPlacement, SlicesOfConsecutiveRanks) {
  Script script(racks());
  ASSERT_EQ(script.run(kTwoBlocks), "");
  auto set = pod_set(4, 8);
  set.topology = {"block", "", "rack", 2, ""};
  const auto placed = script.engine().dry_run({set});
  ASSERT_TRUE(placed.plan) << placed.shortfall.reason;
  const auto rack = [&](std::size_t rank) {
    return script.engine().tables().nodes.find(placed.plan->members[rank].node)->facts.labels.at("rack");
  };
  EXPECT_EQ(rack(0), rack(1));
  EXPECT_EQ(rack(2), rack(3));
}

TEST(TopologyPlacement, NodeWithoutTheLabelIsExcluded) {
  EXPECT_NE(published("want w/1 1x8 required=rack select=kubernetes.io/hostname=x\n").find("short"), std::string::npos);
}

TEST(TopologyPlacement, UnknownLevel) {
  const auto answer = published("want w/1 1x8 required=row\n");
  EXPECT_NE(answer.find("there is no topology level row; the levels here are block, rack, kubernetes.io/hostname"),
            std::string::npos)
      << answer;
}

// A leader without GPUs and its workers: one group, one rack.
TEST(TopologyPlacement, GroupOfPodSetsIsInOneDomain) {
  Script script(racks());
  ASSERT_EQ(script.run(std::string(kTwoBlocks) + "unmanaged s on=a1 gpus=8 cpu=64\n"), "");
  auto leader = pod_set(1, 0);
  leader.name = "leader";
  leader.shape.cpu_milli = 40'000;
  auto workers = pod_set(2, 8);
  workers.name = "worker";
  workers.shape.cpu_milli = 30'000;
  for (auto* set : {&leader, &workers}) set->topology = {"rack", "", "", 0, "all"};
  // A leader of 40 CPUs does not fit on a node with a worker of 30, so the rack would need a third node.
  EXPECT_FALSE(script.engine().dry_run({leader, workers}).plan);
  leader.shape.cpu_milli = 20'000;
  const auto placed = script.engine().dry_run({leader, workers});
  ASSERT_TRUE(placed.plan) << placed.shortfall.reason;
  std::set<std::string> nodes;
  for (const auto& member : placed.plan->members) nodes.insert(member.node.value().substr(0, 1));
  EXPECT_EQ(nodes.size(), 1U);
}

// Resources that Kubernetes counts by name are checked node by node.
TEST(TopologyPlacement, OtherResourcesCount) {
  std::map<NodeName, NodeFacts> facts;
  FreeCapacity free_capacity;
  for (const char* name : {"a1", "a2", "b1", "b2"}) {
    auto& made = facts[NodeName(name)] = node_facts(8);
    made.labels["rack"] = name[0];
    made.extended["example.com/nic"] = std::string_view(name) == "a1" ? 1 : 2;
    NodeCapacity capacity;
    capacity.facts = &made;
    capacity.usable = true;
    capacity.cpu_milli = made.cpu_milli;
    capacity.memory_bytes = made.memory_bytes;
    capacity.extended = made.extended;
    capacity.free_milli.assign(8, 1000);
    free_capacity[NodeName(name)] = capacity;
  }
  Preference preference;
  preference.prepare(free_capacity);
  auto set = pod_set(4, 4);
  set.shape.extended["example.com/nic"] = 1;
  set.topology.required = "rack";
  const auto placed = place_in_topology({set}, free_capacity, preference, {"rack"});
  ASSERT_TRUE(placed.plan) << placed.shortfall.reason;
  for (const auto& member : placed.plan->members) EXPECT_EQ(member.node.value()[0], 'b');
  set.count = 8;
  EXPECT_FALSE(place_in_topology({set}, free_capacity, preference, {"rack"}).plan);
}

TEST(TopologyPlacement, DiagnosisAndRemedies) {
  Script script(racks());
  ASSERT_EQ(script.run(kTwoBlocks), "");
  auto set = pod_set(3, 8);
  set.topology.required = "rack";
  const auto found = script.engine().diagnose({set});
  EXPECT_EQ(found.pod_set, "main");
  ASSERT_EQ(found.conflict.size(), 1U);
  EXPECT_NE(found.conflict[0].find("fits 2 of 3"), std::string::npos) << found.conflict[0];
  ASSERT_EQ(found.remedies.size(), 2U);
  EXPECT_EQ(found.remedies[0].words, "with one block instead of one rack");
  EXPECT_EQ(found.remedies[1].words, "with 2 pods instead of 3");
  for (const auto& way : found.remedies) {
    PlacementRequest changed{{set}, {}};
    way.change(changed);
    EXPECT_TRUE(script.engine().dry_run(changed).plan) << way.words;
  }
  set.count = 8;
  EXPECT_EQ(script.engine().diagnose({set}).conflict, std::vector<std::string>{"8 GPUs for each of 8 pods"});
  set.count = 2;
  EXPECT_TRUE(script.engine().diagnose({set}).pod_set.empty());
}

// One set that must be in one rack is placed if and only if some rack fits all its pods; a placed
// set is in one rack, and no capacity is exceeded.
TEST(TopologyPlacementLaws, CountMatchesBestRack) {
  int placed_some = 0, short_some = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto upto = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
    std::map<NodeName, NodeFacts> facts;
    FreeCapacity free_capacity;
    for (int i = 0; i < 12; ++i) {
      const NodeName name(fmt::format("n{}", i));
      auto& made = facts[name] = node_facts(static_cast<std::int32_t>(4 + 4 * upto(2)));
      if (upto(8) > 0) made.labels["rack"] = fmt::format("r{}", upto(4));
      if (upto(4) == 0) made.taints.push_back({"dedicated", "x", "NoSchedule"});
      NodeCapacity capacity;
      capacity.facts = &made;
      capacity.usable = upto(9) > 0;
      capacity.why_not = "not ready";
      capacity.cpu_milli = 1000 * upto(65);
      capacity.memory_bytes = made.memory_bytes;
      for (std::int32_t device = 0; device < made.gpus; ++device)
        capacity.free_milli.push_back(static_cast<std::int32_t>(upto(3) == 0 ? 250 * upto(4) : 1000));
      free_capacity[name] = capacity;
    }
    Preference preference;
    preference.prepare(free_capacity);
    PodSet set = upto(3) == 0 ? pod_set(1, 0, 250 * (1 + upto(3))) : pod_set(1, 1 + upto(4));
    set.count = static_cast<std::int32_t>(1 + upto(8));
    set.shape.cpu_milli = 1000 * upto(9);
    if (upto(2) == 0) set.shape.tolerations.push_back({"dedicated", "Exists", "", ""});
    set.topology.required = "rack";
    std::map<std::string, std::int64_t> takes;
    for (const auto& [name, capacity] : free_capacity) {
      const bool in = std::ranges::all_of(
          filters(), [&capacity = capacity, &set](const Filter* f) { return f->rejects(capacity, set.shape).empty(); });
      const auto rack = capacity.facts->labels.find("rack");
      if (in && rack != capacity.facts->labels.end()) takes[rack->second] += pods_that_fit(capacity, set.shape);
    }
    const bool fits = std::ranges::any_of(takes, [&](const auto& entry) { return entry.second >= set.count; });
    FreeCapacity then = free_capacity;
    const auto placed = place_in_topology({set}, then, preference, {"rack"});
    ASSERT_EQ(placed.plan.has_value(), fits) << placed.shortfall.reason;
    (fits ? placed_some : short_some) += 1;
    if (!fits) {
      ASSERT_FALSE(placed.shortfall.reason.empty());
      continue;
    }
    ASSERT_EQ(std::ssize(placed.plan->members), set.count);
    std::set<std::string> used;
    for (const auto& member : placed.plan->members) used.insert(facts.at(member.node).labels.at("rack"));
    ASSERT_EQ(used.size(), 1U);
    for (const auto& [name, capacity] : then) {
      ASSERT_GE(capacity.cpu_milli, 0);
      for (const auto free : capacity.free_milli) ASSERT_GE(free, 0);
    }
  }
  EXPECT_GT(placed_some, 300);
  EXPECT_GT(short_some, 300);
}

// A gang with exclusive nodes: no pod that requests GPUs is there before it, and none is placed
// there later, but pods without GPUs may be.
TEST(TopologyPlacement, ExclusiveNodesAreNotSharedWithGpuPods) {
  EXPECT_EQ(Script().run(R"(
node a gpus=8
node b gpus=8
node c gpus=8
synced
unmanaged s on=a gpus=1
unmanaged d on=b cpu=1 daemon
want w/1 2x4 exclusive=true
=> reserved w/1 0:b[0,1,2,3] 1:b[4,5,6,7]
want v/1 1x2 exclusive=true
=> reserved v/1 0:c[0,1]
want u/1 1x8
=> short u/1 0 of 1 pods fit: 1 eligible nodes have 7 free GPUs, needs 8; 1 have fewer than the 8 free GPUs that a pod requests; 2 that are exclusive to another gang
=> demand u/1
want t/1 1x0
=> reserved t/1 0:a[]
want r/1 1x1 exclusive=true
=> short r/1 1 pods fit, but not in the requested topology on exclusive nodes: the fleet fits 0 of 1
=> demand r/1 u/1
-- its remaining capacity is usable by others; of two requests in one step the second finds no exclusive node
phase v/1 cancelled | want q/1 1x2 exclusive=true
=> released v/1 0:c[0,1]-
=> reserved q/1 0:c[0,1]
phase q/1 cancelled
=> released q/1 0:c[0,1]-
=> reserved r/1 0:c[0]
=> demand u/1
)"),
            "");
}

}  // namespace topology_placement_test
}  // namespace qm::placement
