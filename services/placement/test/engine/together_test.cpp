// Gangs with required or preferred topology: the decision, the reason of a refusal, and random
// fleets compared with a simple count.
#include "qm/placement/together.hpp"

#include "script.hpp"

#include <gtest/gtest.h>

#include <random>

namespace qm::placement {
namespace together_test {

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

std::string said(const std::string& table) { return Script(racks()).run(kTwoBlocks + table); }

// A part of the first rack is in use: it would fit two of the four pods, so all are placed in another rack.
TEST(Together, RequiredIsOneDomain) {
  Script script(racks());
  ASSERT_EQ(script.run(kTwoBlocks + std::string(R"(
stranger s on=a1 gpus=8
want w/1 4x4 required=rack
=> reserved w/1 0:b1[0,1,2,3] 1:b1[4,5,6,7] 2:b2[0,1,2,3] 3:b2[4,5,6,7]
)")),
            "");
}

TEST(Together, RacksOfOneNameUnderTwoBlocksAreTwo) {
  Script script(racks());
  const auto answer = script.run(kTwoBlocks + std::string("want w/1 3x8 required=rack\n"));
  EXPECT_NE(answer.find("3 pods find room, but not as near together as they ask"), std::string::npos) << answer;
  EXPECT_NE(answer.find("takes 2 of 3"), std::string::npos) << answer;
  EXPECT_NE(answer.find("fits in one block"), std::string::npos) << answer;
}

TEST(Together, PreferredFallsBackLevelByLevel) {
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

TEST(Together, SlicesOfConsecutiveRanks) {
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

TEST(Together, ANodeWithoutTheLabelIsNoPlace) {
  EXPECT_NE(said("want w/1 1x8 required=rack select=kubernetes.io/hostname=x\n").find("short"), std::string::npos);
}

TEST(Together, ALevelThatIsNotThere) {
  const auto answer = said("want w/1 1x8 required=row\n");
  EXPECT_NE(answer.find("there is no topology level row; the levels here are block, rack, kubernetes.io/hostname"),
            std::string::npos)
      << answer;
}

// A leader without GPUs and its workers: one group, one rack.
TEST(Together, AGroupOfSetsIsInOneDomain) {
  Script script(racks());
  ASSERT_EQ(script.run(std::string(kTwoBlocks) + "stranger s on=a1 gpus=8 cpu=64\n"), "");
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
TEST(Together, OtherResourcesCountToo) {
  std::map<NodeName, NodeFacts> facts;
  Rooms rooms;
  for (const char* name : {"a1", "a2", "b1", "b2"}) {
    auto& made = facts[NodeName(name)] = node_facts(8);
    made.labels["rack"] = name[0];
    made.extended["example.com/nic"] = std::string_view(name) == "a1" ? 1 : 2;
    Room room;
    room.facts = &made;
    room.usable = true;
    room.cpu_milli = made.cpu_milli;
    room.memory_bytes = made.memory_bytes;
    room.extended = made.extended;
    room.free_milli.assign(8, 1000);
    rooms[NodeName(name)] = room;
  }
  Preference preference;
  preference.prepare(rooms);
  auto set = pod_set(4, 4);
  set.shape.extended["example.com/nic"] = 1;
  set.topology.required = "rack";
  const auto placed = place_together({set}, rooms, preference, {"rack"});
  ASSERT_TRUE(placed.plan) << placed.shortfall.reason;
  for (const auto& member : placed.plan->members) EXPECT_EQ(member.node.value()[0], 'b');
  set.count = 8;
  EXPECT_FALSE(place_together({set}, rooms, preference, {"rack"}).plan);
}

TEST(Together, WhatIsInTheWayAndWhatHelps) {
  Script script(racks());
  ASSERT_EQ(script.run(kTwoBlocks), "");
  auto set = pod_set(3, 8);
  set.topology.required = "rack";
  const auto found = script.engine().obstacles({set});
  EXPECT_EQ(found.pod_set, "main");
  ASSERT_EQ(found.conflict.size(), 1U);
  EXPECT_NE(found.conflict[0].find("takes 2 of 3"), std::string::npos) << found.conflict[0];
  ASSERT_EQ(found.ways.size(), 2U);
  EXPECT_EQ(found.ways[0].words, "with one block instead of one rack");
  EXPECT_EQ(found.ways[1].words, "with 2 pods instead of 3");
  for (const auto& way : found.ways) {
    Asked changed{{set}, {}};
    way.change(changed);
    EXPECT_TRUE(script.engine().dry_run(changed).plan) << way.words;
  }
  set.count = 8;
  EXPECT_EQ(script.engine().obstacles({set}).conflict, std::vector<std::string>{"8 GPUs for each of 8 pods"});
  set.count = 2;
  EXPECT_TRUE(script.engine().obstacles({set}).pod_set.empty());
}

// One set that must be in one rack is placed if and only if some rack fits all its pods; a placed
// set is in one rack, and no capacity is exceeded.
TEST(TogetherLaws, AsManyAsSomeRackTakes) {
  int placed_some = 0, short_some = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto upto = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
    std::map<NodeName, NodeFacts> facts;
    Rooms rooms;
    for (int i = 0; i < 12; ++i) {
      const NodeName name(fmt::format("n{}", i));
      auto& made = facts[name] = node_facts(static_cast<std::int32_t>(4 + 4 * upto(2)));
      if (upto(8) > 0) made.labels["rack"] = fmt::format("r{}", upto(4));
      if (upto(4) == 0) made.taints.push_back({"dedicated", "x", "NoSchedule"});
      Room room;
      room.facts = &made;
      room.usable = upto(9) > 0;
      room.why_not = "not ready";
      room.cpu_milli = 1000 * upto(65);
      room.memory_bytes = made.memory_bytes;
      for (std::int32_t device = 0; device < made.gpus; ++device)
        room.free_milli.push_back(static_cast<std::int32_t>(upto(3) == 0 ? 250 * upto(4) : 1000));
      rooms[name] = room;
    }
    Preference preference;
    preference.prepare(rooms);
    PodSet set = upto(3) == 0 ? pod_set(1, 0, 250 * (1 + upto(3))) : pod_set(1, 1 + upto(4));
    set.count = static_cast<std::int32_t>(1 + upto(8));
    set.shape.cpu_milli = 1000 * upto(9);
    if (upto(2) == 0) set.shape.tolerations.push_back({"dedicated", "Exists", "", ""});
    set.topology.required = "rack";
    std::map<std::string, std::int64_t> takes;
    for (const auto& [name, room] : rooms) {
      const bool in = std::ranges::all_of(
          filters(), [&room = room, &set](const Filter* f) { return f->rejects(room, set.shape).empty(); });
      const auto rack = room.facts->labels.find("rack");
      if (in && rack != room.facts->labels.end()) takes[rack->second] += pods_that_fit(room, set.shape);
    }
    const bool fits = std::ranges::any_of(takes, [&](const auto& entry) { return entry.second >= set.count; });
    Rooms then = rooms;
    const auto placed = place_together({set}, then, preference, {"rack"});
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
    for (const auto& [name, room] : then) {
      ASSERT_GE(room.cpu_milli, 0);
      for (const auto free : room.free_milli) ASSERT_GE(free, 0);
    }
  }
  EXPECT_GT(placed_some, 300);
  EXPECT_GT(short_some, 300);
}

// A gang with exclusive nodes: no pod that requests GPUs is there before it, and none is placed
// there later, but pods without GPUs may be.
TEST(Together, ExclusiveNodesAreSharedWithNobodyWhoAsksForGpus) {
  EXPECT_EQ(Script().run(R"(
node a gpus=8
node b gpus=8
node c gpus=8
synced
stranger s on=a gpus=1
stranger d on=b cpu=1 daemon
want w/1 2x4 exclusive=true
=> reserved w/1 0:b[0,1,2,3] 1:b[4,5,6,7]
want v/1 1x2 exclusive=true
=> reserved v/1 0:c[0,1]
want u/1 1x8
=> short u/1 0 of 1 pods fit: 1 eligible nodes have 7 free GPUs, needs 8; 1 have fewer than the 8 free GPUs that a pod requests; 2 that one gang has for itself
=> demand u/1
want t/1 1x0
=> reserved t/1 0:a[]
want r/1 1x1 exclusive=true
=> short r/1 1 pods find room, but not as near together and alone as they ask: the fleet takes 0 of 1
=> demand r/1 u/1
-- what it leaves is anybody's, and of two in one step the second finds no node for itself
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

}  // namespace together_test
}  // namespace qm::placement
