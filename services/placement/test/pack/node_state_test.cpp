#include "qm/placement/pack/policy.hpp"

#include <gtest/gtest.h>

namespace qm::placement::pack {
namespace node_state_test {

NodeState node(std::vector<std::uint16_t> free, std::int64_t cpu = 96'000) {
  NodeState out;
  out.cpu_milli = cpu;
  out.memory_bytes = 1 << 30;
  out.pods = 10;
  out.gpus = static_cast<std::uint8_t>(free.size());
  std::ranges::copy(free, out.free.begin());
  return out;
}

std::vector<int> free_of(const NodeState& state) { return {state.free.begin(), state.free.begin() + state.gpus}; }

constexpr PodClass kShare{4'000, 0, 1, 300, kAnyModel};
constexpr PodClass kTwo{8'000, 0, 2, kDevice, kAnyModel};

TEST(NodeState, WholeDevicesUseIdleOnes) {
  const auto after = with(node({1000, 1000, 1000, 400}), kTwo, 0);
  EXPECT_EQ(free_of(after), (std::vector<int>{1000, 400, 0, 0}));
  EXPECT_EQ(after.cpu_milli, 88'000);
  EXPECT_EQ(after.pods, 9);
  EXPECT_EQ(after.idle(), 1);
  EXPECT_EQ(after.free_milli(), 1400);
}

TEST(NodeState, ShareUsesChosenDevice) {
  const auto before = node({1000, 500, 500, 320});
  EXPECT_EQ(free_of(with(before, kShare, 500)), (std::vector<int>{1000, 500, 320, 200}));
  EXPECT_EQ(free_of(with(before, kShare, 320)), (std::vector<int>{1000, 500, 500, 20}));
  EXPECT_EQ(free_of(with(before, kShare, 1000)), (std::vector<int>{700, 500, 500, 320}));
}

TEST(NodeState, FitsOnlyIfEveryResourceFits) {
  const auto state = node({1000, 400}, 8'000);
  EXPECT_TRUE(fits(state, kShare));
  EXPECT_FALSE(fits(state, kTwo)) << "one idle device";
  EXPECT_TRUE(fits(node({1000, 1000}, 8'000), kTwo));
  EXPECT_FALSE(fits(node({1000, 1000}, 7'999), kTwo)) << "CPU";
  EXPECT_FALSE(fits(node({200, 200}), kShare)) << "no device has enough, though both together have";
  EXPECT_FALSE(fits(node({}), kShare)) << "no GPUs";
  EXPECT_TRUE(fits(node({}), PodClass{1'000, 0, 0, 0, 0}));
  auto full = state;
  full.pods = 0;
  EXPECT_FALSE(fits(full, PodClass{})) << "pods are counted";
  auto other = state;
  other.model = 3;
  EXPECT_FALSE(fits(other, PodClass{0, 0, 1, kDevice, Models{1} << 2}));
  EXPECT_TRUE(fits(other, PodClass{0, 0, 1, kDevice, Models{1} << 3}));
  auto small = state;
  small.memory_bytes = 5;
  EXPECT_FALSE(fits(small, PodClass{0, 6, 0, 0, 0}));
}

TEST(NodeState, PodKindsAreTracked) {
  auto state = with(node({1000, 1000, 1000}), kShare, 1000);
  EXPECT_EQ(state.kinds, 1);
  EXPECT_EQ(with(state, kTwo, 0).kinds, 0b101);
  EXPECT_EQ(with(state, PodClass{}, 0).kinds, 1) << "a pod without GPUs is of no kind";
}

// Scores of the paper's rules for one pod and a few nodes, computed by hand.
TEST(Policies, ScoreAsDefined) {
  const Outlook outlook{{{kShare, 3}, {kTwo, 1}}, {node({1000, 1000, 1000, 1000})}};
  const auto choose = [&](std::string_view name, const NodeState& state, const PodClass& pod) {
    return make_policy(name, outlook)->choose(state, pod);
  };
  // (96 - 8) of 128 cores and 2 of 8 GPUs are left: 1 - (0.6875 + 0.25) / 2.
  EXPECT_EQ(choose("bestfit", node({1000, 1000, 1000, 1000}), kTwo).score, 53);
  // 0.75 * 0.0625 + 0.5 * 0.25, halved and taken from 1.
  EXPECT_EQ(choose("dotprod", node({1000, 1000, 1000, 1000}), kTwo).score, 91);
  EXPECT_EQ(choose("packing", node({1000, 1000, 1000, 1000}), kTwo).score, 29);
  EXPECT_EQ(choose("packing", node({1000, 1000, 400, 0}), kTwo).score, 48);
  EXPECT_EQ(choose("packing", node({1000, 1000, 400, 0}), kShare).score, 96);
  EXPECT_EQ(choose("packing", node({1000, 400}), kShare).device_milli, 400);
  auto shared = node({400, 1000});
  shared.free = {1000, 400};
  shared.kinds = 1;
  EXPECT_EQ(choose("clustering", shared, kShare).score, 75 + 25 * 6600 / 8000);
  EXPECT_EQ(choose("clustering", shared, PodClass{0, 0, 1, kDevice, kAnyModel}).score, 25 * 6600 / 8000);
  EXPECT_EQ(choose("clustering", node({1000, 400}), kShare).score, 25 + 25 * 6600 / 8000);
  EXPECT_EQ(choose("spread", node({1000, 400}), kShare).device_milli, 1000);
}

TEST(Policies, GradientDescentMinimizesFragmentation) {
  // Three of four pods request 300 milli, one requests two devices.
  const Outlook outlook{{{kShare, 3}, {kTwo, 1}}, {node({1000, 1000})}};
  const auto policy = make_policy("fgd", outlook);
  const auto apart = policy->choose(node({1000, 1000}), kShare), joined = policy->choose(node({1000, 700, 0}), kShare);
  EXPECT_GT(joined.score, apart.score) << "it would break the pair";
  EXPECT_EQ(joined.device_milli, 700);
  EXPECT_EQ(policy->choose(node({1000}), kShare).score, 51)
      << "a quarter of 1000 milli was lost to pairs, and a quarter of 700 still is: 75 milli less, where the curve has 51.87";
}

// Pods of four are frequent enough to count, and pods of a whole node are not. A second place for four devices is worth as
// much as the first one, so that a pod of one device does not go to an empty node.
TEST(Policies, ADeviceOfAHalfFreeNodeIsTakenBeforeOneOfAnEmptyNode) {
  const PodClass one{1000, 0, 1, kDevice, kAnyModel}, four{4000, 0, 4, kDevice, kAnyModel},
      eight{8000, 0, 8, kDevice, kAnyModel};
  const NodeState empty = node({1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000});
  const Outlook outlook{{{one, 900}, {four, 60}, {eight, 1}}, {empty}};
  const auto policy = make_policy("quartermaster", outlook);
  NodeState half = empty;
  for (int i = 0; i < 4; ++i) half = with(half, one, 0);
  EXPECT_GE(policy->choose(half, one).score, policy->choose(empty, one).score);
  const NodeState five = with(with(with(empty, one, 0), one, 0), one, 0);
  EXPECT_GT(policy->choose(five, one).score, policy->choose(half, one).score) << "four devices are left for a pod of four";
}

TEST(Policies, AreKnownByName) {
  const Outlook outlook{{{kShare, 1}}, {node({1000})}};
  for (const auto name : policy_names()) EXPECT_EQ(make_policy(name, outlook)->name(), name);
  EXPECT_EQ(make_policy("best", outlook), nullptr);
}

}  // namespace node_state_test
}  // namespace qm::placement::pack
