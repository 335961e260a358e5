// The outline of nodes, of placed pods, and of pending pods.
#include "qm/placement/outline.hpp"

#include "script.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace qm::placement {
namespace outline_test {

std::int64_t milli_of(const Outline::NodeShape& machine) {
  return std::accumulate(machine.free_milli.begin(), machine.free_milli.end(), std::int64_t{0});
}

struct Sums {
  std::int64_t nodes = 0, milli = 0, placed = 0, waiting = 0;
};

Sums sums_of(const Outline& outline) {
  Sums out;
  for (const auto& [machine, count] : outline.machines) {
    out.nodes += count;
    out.milli += milli_of(machine) * count;
  }
  for (const auto& [ask, pods] : outline.pods) {
    out.placed += pods.placed * ask.gpus * ask.gpu_milli;
    out.waiting += pods.waiting * ask.gpus * ask.gpu_milli;
  }
  return out;
}

Outline after(const std::string& script) {
  testing::Script run;
  (void)run.run(script);
  return run.engine().outline();
}

const std::string kFleet = "node a gpus=8\nnode b gpus=8\nnode c gpus=4\nsynced\n";

TEST(Outline, EqualNodesAreGrouped) {
  const auto outline = after(kFleet);
  ASSERT_EQ(outline.machines.size(), 2U);
  EXPECT_EQ(outline.machines.begin()->second + std::next(outline.machines.begin())->second, 3);
  EXPECT_EQ(sums_of(outline).milli, 20'000);
  EXPECT_TRUE(outline.pods.empty());
}

TEST(Outline, ManagedPodsDoNotReduceANode) {
  const auto empty = after(kFleet);
  const auto outline = after(kFleet + "want w/1 2x4\nwant s/1 3x500m\nwant big/1 3x8\n");
  EXPECT_EQ(outline.machines, empty.machines);
  ASSERT_EQ(outline.pods.size(), 3U);
  const auto sums = sums_of(outline);
  EXPECT_EQ(sums.placed, 2 * 4'000 + 3 * 500);
  EXPECT_EQ(sums.waiting, 3 * 8'000);
}

TEST(Outline, UnmanagedPodsAndFaultsReduceANode) {
  const auto outline = after(kFleet + "unmanaged p on=a gpus=2 cpu=2 devices=0,1\nhealth b gpu=3\n");
  EXPECT_EQ(sums_of(outline).milli, 20'000 - 2'000 - 1'000);
  ASSERT_EQ(outline.machines.size(), 3U);
}

TEST(Outline, UnschedulableNodeCountsWithItsManagedPods) {
  const auto outline = after(kFleet + "want w/1 1x8\nwant v/1 1x4\ndrain a\ndrain b\ndrain c\n");
  const auto sums = sums_of(outline);
  EXPECT_EQ(sums.placed, 12'000);
  EXPECT_EQ(sums.milli, 12'000);
  EXPECT_LT(sums.nodes, 3);
}

}  // namespace outline_test
}  // namespace qm::placement
