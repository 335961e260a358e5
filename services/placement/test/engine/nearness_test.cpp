// How close together the GPUs of a gang are placed, and what is reported about it.
#include "qm/placement/nearness.hpp"

#include "qm/placement/numa.hpp"
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>

namespace qm::placement::testing {
namespace nearness_test {

constexpr const char* kNvlink = "gpu.nvidia.com/nvlink-enabled";
constexpr const char* kIsland = "gpu.nvidia.com/nvlink-gpus-per-island";

/// Eight GPUs, four on each of two sockets; NVLink connects groups of `island` of them, 0 = none.
NodeFacts machine(int island, const std::string& fabric = {}, const std::string& domain = {}) {
  auto facts = node_facts(8);
  facts.labels[kNvlink] = island > 0 ? "true" : "false";
  if (island > 0) facts.labels[kIsland] = std::to_string(island);
  facts.numa.zones = {{0, 0, {0, 1, 2, 3}}, {0, 0, {4, 5, 6, 7}}};
  if (!fabric.empty()) facts.labels[std::string(kFabricLabel)] = fabric;
  if (!domain.empty()) facts.labels[std::string(kFabricDomainLabel)] = domain;
  return facts;
}

struct Fleet {
  void nodes(const std::map<std::string, NodeFacts>& all) {
    std::vector<Command> batch;
    NodesSynced synced;
    for (const auto& [name, facts] : all) {
      batch.emplace_back(NodeUpdated{NodeName(name), facts});
      synced.nodes.emplace(name);
    }
    batch.emplace_back(std::move(synced));
    batch.emplace_back(PodsSynced{});
    script.step(batch);
  }
  /// Other pods use these devices.
  void taken(const std::string& node, const std::vector<std::int32_t>& devices) {
    PodFacts pod;
    pod.uid = pod.name = "on-" + node + std::to_string(devices.front());
    pod.ns = "other";
    pod.node = NodeName(node);
    pod.phase = PodPhase::kRunning;
    pod.shape.gpu.whole = std::ssize(devices);
    DevicesObserved given{pod.node, {script.now(), {}}};
    for (const auto index : devices) given.seen.pods[pod.key()].push_back({pod.node, index, {}, 1000, ""});
    script.step({PodUpdated{pod}, given});
  }
  std::vector<Member> placed(const std::vector<PodSet>& sets) {
    const auto answer = script.engine().dry_run(sets);
    EXPECT_TRUE(answer.plan) << answer.shortfall.reason;
    return answer.plan ? answer.plan->members : std::vector<Member>();
  }
  std::vector<links::LinkEndpoint> endpoints(const std::vector<Member>& members) {
    std::vector<links::LinkEndpoint> out;
    for (const Member& member : members) {
      const auto& facts = script.engine().tables().nodes.find(member.node)->facts;
      std::ranges::move(endpoints_of(member.node, facts, member.devices), std::back_inserter(out));
    }
    return out;
  }
  static std::set<std::string> names(const std::vector<Member>& members) {
    std::set<std::string> out;
    for (const Member& member : members) out.insert(member.node.value());
    return out;
  }

  Script script;
};
class Nearness : public ::testing::Test, protected Fleet {};

// S-032: of two nodes that fit the gang, the one where NVLink connects all eight; the bandwidth of both is reported.
TEST_F(Nearness, EightGpusUseOneNvlinkDomain) {
  nodes({{"a-pcie", machine(0)}, {"b-nvlink", machine(8)}});
  for (const auto& sets : {std::vector{pod_set(1, 8)}, std::vector{pod_set(8, 1)}}) {
    const auto members = placed(sets);
    EXPECT_EQ(names(members), std::set<std::string>{"b-nvlink"});
    EXPECT_EQ(script.engine().compared(sets, members),
              (std::vector<std::string>{"8 GPUs in one NVLink domain of node b-nvlink: 900 GB/s",
                                        "rather than 8 GPUs over PCIe across the sockets of node a-pcie: 25 GB/s"}));
  }
  // If only the other node is left, that is reported, too.
  taken("b-nvlink", {5});
  const auto members = placed({pod_set(1, 8)});
  EXPECT_EQ(script.engine().compared({pod_set(1, 8)}, members),
            std::vector<std::string>{"8 GPUs over PCIe across the sockets of node a-pcie: 25 GB/s"});
  EXPECT_TRUE(script.engine().compared({pod_set(1, 1)}, placed({pod_set(1, 1)})).empty())
      << "a single GPU needs no interconnect";
}

TEST_F(Nearness, TwoIslandsAreWorseThanOne) {
  nodes({{"a", machine(4)}, {"b", machine(8)}});
  EXPECT_EQ(names(placed({pod_set(2, 4)})), std::set<std::string>{"b"});
  EXPECT_EQ(script.engine().compared({pod_set(2, 4)}, placed({pod_set(2, 4)})).back(),
            "rather than 8 GPUs in 2 NVLink domains of node a: 25 GB/s");
}

// S-068: the labels of the reference manifest describe two islands of four.
TEST_F(Nearness, LabelsAreReadAsIslands) {
  const auto facts = machine(4);
  std::vector<DeviceRef> all;
  for (int i = 0; i < 8; ++i) all.push_back({NodeName("a"), i, {}, 1000, {}});
  std::map<std::int32_t, std::vector<std::int32_t>> islands;
  for (const auto& endpoint : endpoints_of(NodeName("a"), facts, all)) islands[endpoint.island].push_back(endpoint.gpu);
  EXPECT_EQ(islands, (std::map<std::int32_t, std::vector<std::int32_t>>{{0, {0, 1, 2, 3}}, {1, {4, 5, 6, 7}}}));
  // Without labels the GPU model decides, and the label of a node that denies NVLink overrides the model.
  auto plain = node_facts(8);
  for (const auto& [model, island] : {std::pair("NVIDIA-H100-80GB-HBM3", 0), std::pair("NVIDIA-A100-SXM4-80GB", 0),
                                      std::pair("NVIDIA-H100-PCIe", -1), std::pair("NVIDIA-A10G", -1)}) {
    plain.model = model;
    EXPECT_EQ(endpoints_of(NodeName("a"), plain, all).front().island, island) << model;
  }
  plain.model = "NVIDIA-H100-80GB-HBM3";
  plain.labels[kNvlink] = "false";
  EXPECT_EQ(endpoints_of(NodeName("a"), plain, all).front().island, -1);
}

// The values that the agent observed count if administrators set no label.
TEST_F(Nearness, OperatorLabelsOverrideTheAgent) {
  auto facts = machine(0);
  EXPECT_FALSE(has_fabric(facts));
  facts.labels[std::string(kFabricSeenLabel)] = "roce";
  facts.labels[std::string(kRailsSeenLabel)] = "2";
  const auto endpoint = [&] { return endpoints_of(NodeName("a"), facts, {{NodeName("a"), 0, {}, 1000, {}}}).front(); };
  EXPECT_EQ(endpoint().fabric, links::Fabric::kRoce);
  EXPECT_EQ(endpoint().rails, 2);
  facts.labels[std::string(kFabricLabel)] = "infiniband";
  facts.labels[std::string(kFabricRailsLabel)] = "8";
  EXPECT_EQ(endpoint().fabric, links::Fabric::kInfiniband);
  EXPECT_EQ(endpoint().rails, 8);
}

// Two sockets with two switches each: a pod gets two GPUs under one switch, and the words report it.
TEST_F(Nearness, TwoGpusUnderOnePcieSwitch) {
  auto facts = machine(0);
  facts.switches = {0, 1, 0, 1, 2, 2, 3, 3};
  nodes({{"a", facts}});
  taken("a", {4, 6, 7});
  const auto members = placed({pod_set(1, 2)});
  ASSERT_EQ(members.size(), 1U);
  EXPECT_EQ(members[0].devices[0].index, 0);
  EXPECT_EQ(members[0].devices[1].index, 2);
  EXPECT_EQ(script.engine().compared({pod_set(1, 2)}, members),
            std::vector<std::string>{"2 GPUs under one PCIe switch of node a: 50 GB/s"});
}

// The devices that a pod gets are as fast as any of the idle ones could be: all 256 occupancies,
// compared with every subset.
TEST_F(Nearness, DevicesAreFastestForEveryOccupancy) {
  const auto facts = machine(4);
  const NodeName node("a");
  const auto speed = [&](const std::vector<std::size_t>& devices) {
    std::vector<DeviceRef> refs;
    for (const auto d : devices) refs.push_back({node, static_cast<std::int32_t>(d), {}, 1000, {}});
    return links::ring(endpoints_of(node, facts, refs));
  };
  int asked = 0;
  for (unsigned idle = 0; idle < 256; ++idle) {
    std::vector<std::int32_t> free(8, 0);
    for (unsigned i = 0; i < 8; ++i) free[i] = (idle >> i & 1) != 0 ? 1000 : 0;
    for (int count = 2; count <= std::popcount(idle); ++count) {
      double best = 0;
      for (unsigned some = 0; some < 256; ++some) {
        if ((some & idle) != some || std::popcount(some) != count) continue;
        std::vector<std::size_t> devices;
        for (std::size_t i = 0; i < 8; ++i) {
          if ((some >> i & 1) != 0) devices.push_back(i);
        }
        best = std::max(best, speed(devices));
      }
      ASSERT_EQ(speed(choose_devices(free, {4, {}, {}}, count)), best) << count << " of " << idle;
      ++asked;
    }
  }
  EXPECT_EQ(asked, 769);  // of eight devices, each subset of n gives n - 1 requests
}

// S-072: two GPUs of a partly used node. Where the kubelet does not align devices, its plugin
// allocates any two; single-numa-node allocates two of one socket, and refuses the node without
// such a pair. The same number of bytes, over all requests for which both have a result.
TEST_F(Nearness, OneSocketIsFasterThanAcrossSockets) {
  auto strict = machine(0);
  strict.numa.policy = TopologyPolicy::kSingleNumaNode;
  const NodeName node("a");
  NodeCapacity capacity;
  capacity.facts = &strict;
  capacity.usable = true;
  capacity.cpu_milli = 64'000;
  capacity.memory_bytes = 256LL << 30;
  capacity.zones.resize(2);
  std::mt19937 random(3);
  double any_s = 0, aligned_s = 0;
  int refused = 0;
  for (unsigned idle = 0; idle < 256; ++idle) {
    capacity.free_milli.assign(8, 0);
    std::vector<std::int32_t> devices;
    for (int i = 0; i < 8; ++i) {
      if ((idle >> i & 1) == 0) continue;
      capacity.free_milli[static_cast<std::size_t>(i)] = 1000;
      devices.push_back(i);
    }
    if (devices.size() < 2) continue;
    PodShape shape;
    shape.gpu.whole = 2;
    const bool one_socket = std::popcount(idle & 0xFU) >= 2 || std::popcount(idle >> 4) >= 2;
    ASSERT_EQ(pods_that_fit(capacity, shape) > 0, one_socket) << "a hard filter, occupancy " << idle;
    if (!one_socket) {
      ++refused;
      continue;
    }
    NodeCapacity left = capacity;
    aligned_s += 1 / links::ring(endpoints_of(node, strict, take(left, node, shape)));
    constexpr int kDraws = 50;
    for (int draw = 0; draw < kDraws; ++draw) {
      std::ranges::shuffle(devices, random);
      const std::vector<DeviceRef> two{{node, devices[0], {}, 1000, {}}, {node, devices[1], {}, 1000, {}}};
      any_s += 1 / links::ring(endpoints_of(node, strict, two)) / kDraws;
    }
  }
  EXPECT_EQ(refused, 16);
  const double gain = any_s / aligned_s - 1;
  EXPECT_GE(gain, 0.40);
  EXPECT_LE(gain, 0.60);
}

// S-073: 16 GPUs of two nodes, in pods of any size: the ranks of an island are consecutive, and
// random ranks get less than half the bandwidth.
TEST_F(Nearness, RanksOfAnIslandAreConsecutive) {
  nodes({{"a", machine(4, "ib", "f1")}, {"b", machine(4, "ib", "f1")}});
  for (const auto& sets : {std::vector{pod_set(16, 1)}, std::vector{pod_set(8, 2)}, std::vector{pod_set(4, 4)},
                           std::vector{pod_set(2, 8)}}) {
    auto ranks = endpoints(placed(sets));
    ASSERT_EQ(ranks.size(), 16U);
    int changes = 0;
    for (std::size_t i = 1; i < ranks.size(); ++i) {
      changes += ranks[i].node != ranks[i - 1].node || ranks[i].island != ranks[i - 1].island ? 1 : 0;
    }
    EXPECT_EQ(changes, 3) << "four islands, each once";
    const double ours = links::ring(ranks);
    std::mt19937 random(7);
    double sum = 0;
    constexpr int kDraws = 1000;
    for (int i = 0; i < kDraws; ++i) {
      std::ranges::shuffle(ranks, random);
      sum += links::ring(ranks);
    }
    EXPECT_GE(ours, 2 * sum / kDraws);
  }
}

// S-257: one domain of the fastest fabric that holds a whole gang of several nodes; any nodes if no domain does.
TEST_F(Nearness, MultiNodeGangPrefersFastestFabric) {
  nodes({{"a-eth", machine(8, "ethernet", "e1")},
         {"b-eth", machine(8, "ethernet", "e1")},
         {"c-roce", machine(8, "roce", "r1")},
         {"d-roce", machine(8, "roce", "r1")},
         {"e-ib", machine(8, "ib", "i1")},
         {"f-ib", machine(8, "ib", "i2")},
         {"g-ib", machine(8, "ib", "i2")},
         {"h", machine(8)}});
  const auto where = [&](int pods) { return names(placed({pod_set(pods, 8)})); };
  EXPECT_EQ(where(2), (std::set<std::string>{"f-ib", "g-ib"}));
  taken("f-ib", {0});
  EXPECT_EQ(where(2), (std::set<std::string>{"c-roce", "d-roce"})) << "InfiniBand has two nodes, but of two domains";
  taken("d-roce", {0});
  EXPECT_EQ(where(2), (std::set<std::string>{"a-eth", "b-eth"}));
  EXPECT_EQ(where(6).size(), 6U) << "all that is left, whatever joins it";
  EXPECT_EQ(script.engine().compared({pod_set(2, 8)}, placed({pod_set(2, 8)})).front(),
            "16 GPUs on 2 nodes by ethernet: 12 GB/s");
}

// S-277: a gang that fits on one node is placed as if there were no fabric.
TEST_F(Nearness, SingleNodeGangIgnoresFabric) {
  std::map<std::string, NodeFacts> with, without;
  for (const auto& [name, fabric] : {std::pair("a", "ethernet"), std::pair("b", "ib"), std::pair("c", "roce")}) {
    with[name] = machine(8, fabric, name);
    without[name] = machine(8);
  }
  nodes(with);
  Script other;
  std::vector<Command> batch{NodesSynced{{NodeName("a"), NodeName("b"), NodeName("c")}}, PodsSynced{}};
  for (const auto& [name, facts] : without) batch.insert(batch.begin(), NodeUpdated{NodeName(name), facts});
  other.step(batch);
  for (const auto& sets : {std::vector{pod_set(1, 8)}, std::vector{pod_set(8, 1)}, std::vector{pod_set(2, 4)}}) {
    EXPECT_EQ(placed(sets), other.engine().dry_run(sets).plan->members);
    EXPECT_EQ(names(placed(sets)), std::set<std::string>{"a"}) << "although its fabric is the slowest";
  }
}

// S-256: over random fleets, no other choice of the same nodes' idle GPUs makes a shorter step if the gang fits
// on one node; a gang that needs two nodes gets the fabric with the shortest step among those that hold it.
TEST_F(Nearness, StepTimeMatchesBestPossible) {
  const links::Step step{0.2, 20e9};
  std::mt19937 random(11);
  const auto roll = [&](int sides) { return std::uniform_int_distribution(0, sides - 1)(random); };
  for (int i = 0; i < 60; ++i) {
    Fleet fleet;
    std::map<std::string, NodeFacts> all;
    const std::array<std::string, 3> fabrics{"ethernet", "roce", "ib"};
    for (int pair = 0; pair < 3; ++pair) {
      const auto fabric = fabrics[static_cast<std::size_t>(roll(3))];
      for (const char* one : {"a", "b"})
        all[fmt::format("n{}{}", pair, one)] = machine(8, fabric, fmt::format("d{}", pair));
    }
    fleet.nodes(all);
    const auto members = fleet.placed({pod_set(2, 8)});
    double best = 1e9;
    for (const auto& [a, fa] : all) {
      for (const auto& [b, fb] : all) {
        if (a >= b) continue;
        std::vector<Member> two;
        for (const auto& name : {a, b}) {
          Member member;
          member.node = NodeName(name);
          for (int gpu = 0; gpu < 8; ++gpu) member.devices.push_back({member.node, gpu, {}, 1000, {}});
          two.push_back(std::move(member));
        }
        best = std::min(best, links::seconds_of(step, fleet.endpoints(two)));
      }
    }
    EXPECT_DOUBLE_EQ(links::seconds_of(step, fleet.endpoints(members)), best) << "fleet " << i;
  }
}

}  // namespace nearness_test
}  // namespace qm::placement::testing
