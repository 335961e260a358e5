// The gap of outlines that can be computed by hand.
#include "qm/placement/gap.hpp"

#include <gtest/gtest.h>

namespace qm::placement {
namespace gap_test {

constexpr std::int64_t kGi = std::int64_t{1} << 30;

Outline::NodeShape machine(const std::string& model, int gpus) {
  return {model, 64'000, 512 * kGi, std::vector<std::int32_t>(static_cast<std::size_t>(gpus), 1000)};
}
Outline::Ask ask(int gpus, int milli = 1000, std::vector<std::string> models = {}) {
  return {4'000, 16 * kGi, gpus, milli, std::move(models)};
}
Gap gap_of(const Outline& outline) { return placement::gap_of(outline, {}); }

TEST(Gap, IsWhatABetterOrderWouldAllocate) {
  // Two nodes of four GPUs; eight pods of 600 milli hold all devices, and two pods of four devices are pending.
  Outline outline;
  outline.machines[machine("T4", 4)] = 2;
  outline.pods[ask(1, 600)] = {8, 0};
  outline.pods[ask(4)] = {0, 2};
  const auto gap = gap_of(outline);
  EXPECT_EQ(gap.capacity, 8'000);
  EXPECT_EQ(gap.asked, 12'800);
  EXPECT_EQ(gap.allocated, 4'800);
  EXPECT_EQ(gap.bound, 8'000) << "with the two pending ones instead";
  EXPECT_EQ(gap.keeping, 4'800) << "but not in addition to the running ones";
  EXPECT_TRUE(gap.close);
}

TEST(Gap, PricesEachModelAndSize) {
  Outline outline;
  outline.machines[machine("A100", 8)] = 3;
  outline.machines[machine("T4", 4)] = 2;
  outline.machines[machine("T4", 2)] = 1;
  outline.machines[machine("", 0)] = 5;
  outline.pods[ask(1, 1000, {"T4"})] = {10, 90};
  outline.pods[ask(1, 1000, {"A100", "H100"})] = {6, 0};
  outline.pods[ask(1, 1000, {"H100"})] = {0, 7};
  const auto gap = gap_of(outline);
  EXPECT_EQ(gap.bound, 16'000) << "no node has an H100";
  ASSERT_EQ(gap.prices.size(), 3U) << "nodes without GPUs have no price";
  EXPECT_EQ(gap.prices[0].model, "A100");
  EXPECT_EQ(gap.prices[0].nodes, 3);
  EXPECT_NEAR(gap.prices[0].milli, 0, 1);
  EXPECT_EQ(gap.prices[1].gpus, 2);
  EXPECT_NEAR(gap.prices[1].milli, 2'000, 1);
  EXPECT_EQ(gap.prices[2].gpus, 4);
  EXPECT_NEAR(gap.prices[2].milli, 4'000, 1);
}

TEST(Gap, NodesBeyondTheLimitCountInFull) {
  Outline outline;
  outline.machines[machine("GB200", 72)] = 2;
  outline.machines[machine("T4", 4)] = 1;
  outline.pods[ask(72)] = {1, 0};
  outline.pods[ask(3)] = {0, 5};
  const auto gap = gap_of(outline);
  EXPECT_EQ(gap.capacity, 148'000);
  EXPECT_EQ(gap.allocated, 72'000);
  EXPECT_EQ(gap.bound, 147'000);
  EXPECT_EQ(gap.keeping, 147'000);
}

TEST(Gap, ExcessModelsAreMerged) {
  Outline outline;
  for (int i = 0; i < 70; ++i) outline.machines[machine("model-" + std::to_string(100 + i), 1)] = 1;
  outline.pods[ask(1, 1000, {"model-165"})] = {1, 1};
  outline.pods[ask(1, 1000, {"model-101"})] = {1, 1};
  const auto gap = gap_of(outline);
  EXPECT_EQ(gap.allocated, 2'000);
  EXPECT_EQ(gap.bound, 3'000) << "two where there is only one, and one where it is a model of its own";
}

TEST(Gap, TimeLimitAppliesToEachBound) {
  Outline outline;
  outline.machines[machine("T4", 4)] = 2;
  outline.pods[ask(1, 810)] = {2, 20};
  outline.pods[ask(1, 500)] = {0, 3};
  bool first = false, second = false;
  const auto hasty = placement::gap_of(outline, [&](bool last) {
    (last ? second : first) = true;
    return true;
  });
  EXPECT_TRUE(first && second);
  EXPECT_FALSE(hasty.close);
  EXPECT_EQ(hasty.bound, 8'000) << "what there is";
  const auto gap = gap_of(outline);
  EXPECT_TRUE(gap.close);
  EXPECT_LT(gap.bound, 7'500);
  EXPECT_GE(gap.bound, 7 * 810 + 1'000);
}

}  // namespace gap_test
}  // namespace qm::placement
