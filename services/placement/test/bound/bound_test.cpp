// The bound in cases that can be computed by hand, and the meaning of its prices.
#include "fleets.hpp"

#include <gtest/gtest.h>

namespace qm::placement::bound {
namespace bound_test {

using testing::node_of;

constexpr std::int64_t kGiga = std::int64_t{1} << 30;

pack::PodClass whole(int gpus, std::int64_t cpu_milli = 1'000) { return {cpu_milli, kGiga, gpus, pack::kDevice}; }
pack::PodClass share(int milli, std::int64_t cpu_milli = 1'000) { return {cpu_milli, kGiga, 1, milli}; }

std::int64_t bound_of(const std::vector<NodeGroup>& nodes, const std::vector<Wanted>& wanted) {
  return upper_bound(nodes, wanted).gpu_milli;
}

TEST(Bound, IsLimitedByDemandAndSupply) {
  EXPECT_EQ(bound_of({{node_of(64'000, 8), 2}}, {{whole(1), 5}}), 5'000);
  EXPECT_EQ(bound_of({{node_of(64'000, 8), 2}}, {{whole(1), 500}}), 16'000);
  EXPECT_EQ(bound_of({}, {{whole(1), 5}}), 0);
  EXPECT_EQ(bound_of({{node_of(64'000, 8), 2}}, {}), 0);
  EXPECT_EQ(bound_of({}, {}), 0);
}

TEST(Bound, AccountsForLeftoverShares) {
  // Only one share of 810 fits on a device, and no pod is small enough for the rest; three of 333,
  // whatever the gcd of the requests.
  EXPECT_EQ(bound_of({{node_of(64'000, 8), 2}}, {{share(810), 100}}), 16 * 810);
  EXPECT_EQ(bound_of({{node_of(64'000, 8), 2}}, {{share(333), 100}}), 16 * 999);
  // Ten shares of 190 fit next to those of 810.
  EXPECT_EQ(bound_of({{node_of(64'000, 8), 2}}, {{share(810), 100}, {share(190), 10}}), 16 * 810 + 10 * 190);
}

TEST(Bound, PodsDoNotSpanNodes) {
  EXPECT_EQ(bound_of({{node_of(64'000, 2), 10}}, {{whole(4), 3}}), 0) << "20 devices, but nowhere four";
  EXPECT_EQ(bound_of({{node_of(64'000, 3), 10}}, {{whole(2), 100}}), 20'000) << "the third is left over";
  EXPECT_EQ(bound_of({{node_of(8'000, 2), 10}}, {{whole(1, 5'000), 100}}), 10'000) << "CPU for one, not for 1.6";
}

TEST(Bound, AccountsForModelsMemoryAndUsedShares) {
  auto pod = whole(1);
  pod.models = 2;
  EXPECT_EQ(bound_of({{node_of(64'000, 8, 0), 3}, {node_of(64'000, 4, 1), 1}}, {{pod, 100}}), 4'000);
  EXPECT_EQ(bound_of({{node_of(64'000, 8, 0, 3 * kGiga), 2}}, {{whole(1), 100}}), 6'000);
  auto taken = node_of(64'000, 2);
  taken.free[1] = 400;
  EXPECT_EQ(bound_of({{taken, 5}}, {{whole(1), 100}, {share(300), 100}}), 5 * 1'300);
}

TEST(Bound, KeepsRunningPodsPlaced) {
  // One pod without GPUs uses the whole CPU of one node: nothing else runs there.
  const pack::PodClass hungry{64'000, kGiga, 0, 0};
  const std::vector<NodeGroup> nodes{{node_of(64'000, 8), 2}};
  EXPECT_EQ(bound_of(nodes, {{whole(8, 8'000), 2}, {hungry, 1}}), 16'000);
  EXPECT_EQ(bound_of(nodes, {{whole(8, 8'000), 2}, {hungry, 1, 1}}), 8'000);
  // The shares of 810 must be placed: little fits after them.
  EXPECT_EQ(bound_of(nodes, {{share(810), 16, 16}, {whole(1), 16}}), 16 * 810);
}

TEST(Bound, PricesScarceCapacity) {
  auto bound_to = whole(1);
  bound_to.models = 2;
  const std::vector<NodeGroup> nodes{{node_of(64'000, 8, 0), 10}, {node_of(64'000, 4, 1), 2}};
  const auto bound = upper_bound(nodes, std::vector<Wanted>{{bound_to, 50}, {whole(1), 20}});
  EXPECT_EQ(bound.gpu_milli, 28'000);
  EXPECT_NEAR(bound.node_milli[0], 0, 1) << "there is more than enough of these";
  EXPECT_NEAR(bound.node_milli[1], 4'000, 1) << "each device of one more would be used";
  EXPECT_NEAR(bound.pod_milli[0], 0, 1) << "one more of these would wait";
  EXPECT_NEAR(bound.pod_milli[1], 1'000, 1) << "one more of these would run";
}

TEST(Bound, ReportsPricesForEqualInputs) {
  std::vector<NodeGroup> nodes;
  for (int i = 0; i < 200; ++i) nodes.push_back({node_of(64'000 + i, 8), 1});
  std::vector<Wanted> wanted;
  for (int i = 0; i < 2'000; ++i) wanted.push_back({whole(1 + i % 8, 1'000 + i), 1});
  const auto bound = upper_bound(nodes, wanted);
  EXPECT_EQ(bound.node_milli.size(), nodes.size());
  EXPECT_EQ(bound.pod_milli.size(), wanted.size());
  EXPECT_LE(bound.gpu_milli, 1'600'000);
  EXPECT_GE(bound.gpu_milli, 1'590'000);
}

TEST(Bound, ReturnsEarlyWithZeroTimeLimit) {
  const std::vector<NodeGroup> nodes{{node_of(64'000, 8), 2}};
  const std::vector<Wanted> wanted{{share(810), 100}, {whole(1), 3}};
  Effort none;
  none.stop = [] { return true; };
  const auto hasty = upper_bound(nodes, wanted, none);
  EXPECT_EQ(hasty.gpu_milli, 16'000);
  EXPECT_EQ(hasty.rounds, 0);
  EXPECT_FALSE(hasty.close);
  const auto good = upper_bound(nodes, wanted);
  EXPECT_EQ(good.gpu_milli, 13 * 810 + 3'000);
  EXPECT_TRUE(good.close);
}

}  // namespace bound_test
}  // namespace qm::placement::bound
