// Random classes, nodes and changes: the measure equals its definition, and the agendas give the
// same result as a scan of all nodes.
#include "qm/placement/pack/inventory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace qm::placement::pack {
namespace pack_prop_test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : generator_(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(generator_() % static_cast<std::uint64_t>(n)); }

 private:
  std::mt19937_64 generator_;
};

PodClass some_pod(Random& random) {
  PodClass pod;
  pod.cpu_milli = random.below(5) * 4'000;
  pod.memory_bytes = random.below(3) * 100;
  switch (random.below(4)) {
    case 0:
      break;
    case 1:
      pod.gpus = std::int32_t{1} << random.below(4);
      break;
    default:
      pod.gpus = 1;
      pod.gpu_milli = static_cast<std::int32_t>(50 * (1 + random.below(20)));
  }
  if (random.below(3) == 0) pod.models = static_cast<Models>(1 + random.below(7));
  return pod;
}

NodeState empty_node(Random& random) {
  NodeState node;
  node.cpu_milli = 8'000 + random.below(4) * 16'000;
  node.memory_bytes = 400 + random.below(2) * 400;
  node.pods = 12;
  node.model = static_cast<std::uint8_t>(random.below(3));
  node.gpus = static_cast<std::uint8_t>(random.below(9));
  node.type = static_cast<std::uint8_t>(node.model * 16 + node.gpus);
  std::fill_n(node.free.begin(), node.gpus, std::uint16_t{kDevice});
  return node;
}

/// A device of the node from which the share could be allocated.
std::int32_t some_device(Random& random, const NodeState& node, const PodClass& pod) {
  const auto enough = std::ranges::count_if(node.free, [&](auto milli) { return milli >= pod.gpu_milli; });
  return pod.shares() ? node.free[static_cast<std::size_t>(random.below(enough))] : 0;
}

NodeState used_node(Random& random) {
  auto node = empty_node(random);
  for (auto i = random.below(8); i > 0; --i) {
    const auto pod = some_pod(random);
    if (fits(node, pod)) node = with(node, pod, some_device(random, node, pod));
  }
  return node;
}

std::vector<Demand> some_mix(Random& random) {
  std::vector<Demand> mix;
  for (int i = 0; i < 12; ++i) {
    mix.push_back({some_pod(random), 1 + random.below(9)});
    mix.back().pod.memory_bytes = 0;
  }
  return mix;
}

/// The definition, class by class.
std::int64_t fragment_of(const NodeState& node, const std::vector<Demand>& mix, Fragmentation::Remainders remainders) {
  std::int64_t sum = 0;
  for (const auto& [pod, weight] : mix) {
    if (pod.gpus == 0 || !fits(node, pod)) {
      sum += weight * node.free_milli();
      continue;
    }
    for (std::size_t i = 0; i < node.gpus; ++i) sum += node.free[i] < pod.gpu_milli ? weight * node.free[i] : 0;
    if (remainders == Fragmentation::Remainders::kUsable || pod.gpus < 2 || pod.gpu_milli < kDevice) continue;
    sum += weight * kDevice * (std::ranges::count(node.free, kDevice) % pod.gpus);
  }
  return sum;
}

TEST(FragmentationLaws, IsTheSumOfUnusableIdleGpusOverClasses) {
  Random random(1);
  std::int64_t useful = 0;
  for (int round = 0; round < 200; ++round) {
    const auto mix = some_mix(random);
    const auto remainders = round % 2 == 0 ? Fragmentation::Remainders::kUsable : Fragmentation::Remainders::kLost;
    const Fragmentation fragment(mix, kMaxModels, remainders);
    for (int i = 0; i < 50; ++i) {
      const auto node = used_node(random);
      ASSERT_EQ(fragment.of(node), fragment_of(node, mix, remainders));
      ASSERT_LE(fragment.of(node), fragment.weight() * node.free_milli());
      useful += fragment.of(node) < fragment.weight() * node.free_milli() ? 1 : 0;
    }
  }
  EXPECT_GT(useful, 1000) << "no class could use the nodes";
}

TEST(FragmentationLaws, TypicalClassesCoverTheShare) {
  const PodClass a{1, 0, 0, 0, 0}, b{2, 0, 0, 0, 0}, c{3, 0, 0, 0, 0};
  const auto classes = [](const std::vector<Demand>& mix) {
    std::vector<std::int64_t> cpu;
    for (const auto& one : mix) cpu.push_back(one.pod.cpu_milli);
    return cpu;
  };
  EXPECT_EQ(classes(typical({{a, 5}, {b, 80}, {c, 15}})), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(classes(typical({{a, 6}, {b, 80}, {c, 14}})), (std::vector<std::int64_t>{2, 3, 1}));
  EXPECT_EQ(classes(typical({{a, 5}, {b, 80}, {c, 15}}, 0.5)), (std::vector<std::int64_t>{2}));
  EXPECT_TRUE(typical({}).empty());
}

class InventoryLaws : public ::testing::TestWithParam<std::string_view> {};

TEST_P(InventoryLaws, AgendasMatchFullScan) {
  Random random(7);
  std::int64_t placed = 0;
  for (int round = 0; round < 60; ++round) {
    Outlook outlook{some_mix(random), {}};
    for (int i = 0; i < 40; ++i) outlook.capacity.push_back(empty_node(random));
    outlook.capacity.back().model = 2;
    const auto policy = make_policy(GetParam(), outlook);
    Inventory fleet(*policy);
    std::vector<NodeState> kinds;
    for (int i = 0; i < 4; ++i) kinds.push_back(empty_node(random));
    std::vector<PodClass> classes;
    for (int i = 0; i < 6; ++i) classes.push_back(some_pod(random));
    for (int i = 0; i < 30; ++i) fleet.add(kinds[static_cast<std::size_t>(random.below(4))]);
    for (int step = 0; step < 120; ++step) {
      const auto node = static_cast<NodeId>(random.below(30));
      switch (random.below(8)) {
        case 0:
          fleet.set(node, kinds[static_cast<std::size_t>(random.below(4))]);
          break;
        case 1:
          fleet.set(node, used_node(random));
          break;
        case 2:
          fleet.remove(node);
          break;
        default:
          placed += fleet.place(classes[static_cast<std::size_t>(random.below(6))]) ? 1 : 0;
      }
      if (step % 10 == 0) fleet.audit();
    }
    fleet.audit();
  }
  EXPECT_GT(placed, 1000);
}

INSTANTIATE_TEST_SUITE_P(Policies, InventoryLaws, ::testing::ValuesIn(policy_names().begin(), policy_names().end()));

TEST(InventoryLaws, SizeStaysBoundedInLongRuns) {
  Random random(3);
  const Outlook outlook{some_mix(random), {empty_node(random)}};
  const auto policy = make_policy("bestfit", outlook);
  Inventory fleet(*policy);
  for (int i = 0; i < 200; ++i) fleet.add(empty_node(random));
  // More classes than there are agendas, and more states than are kept, one after the other.
  for (std::int64_t i = 0; i < 30'000; ++i) {
    auto node = empty_node(random);
    node.cpu_milli = 10'000 + i;
    fleet.set(static_cast<NodeId>(random.below(200)), node);
    if (i % 10 == 0) (void)fleet.best(PodClass{i % 7'000, 0, 1, kDevice, kAnyModel});
  }
  fleet.audit();
  EXPECT_LE(fleet.distinct_states(), 200U);
}

}  // namespace pack_prop_test
}  // namespace qm::placement::pack
