// Converts names of layouts to the resources of a node, and back.
#include "qm/placement/mig/node_layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::placement::mig {
namespace node_layout_test {

using ::testing::HasSubstr;

constexpr const char* kH100 = "NVIDIA-H100-80GB-HBM3";
constexpr const char* kA100 = "NVIDIA-A100-SXM4-40GB";

Capacity named(const std::string& name, std::string_view product, int gpus, const Definitions& own = {}) {
  const auto layout = layout_named(name, own, product, gpus);
  return layout ? capacity_of(*layout) : Capacity{{layout.error().message, 0}};
}
std::string refused(const std::string& name, std::string_view product, int gpus, const Definitions& own = {}) {
  const auto layout = layout_named(name, own, product, gpus);
  return layout ? "" : layout.error().to_string();
}

TEST(NodeLayout, NamesOfMigManager) {
  EXPECT_EQ(named("all-1g.10gb", kH100, 1), (Capacity{{"nvidia.com/mig-1g.10gb", 7}}));
  EXPECT_EQ(named("all-1g.20gb", kH100, 2), (Capacity{{"nvidia.com/mig-1g.20gb", 8}}));
  EXPECT_EQ(named("all-2g.20gb", kH100, 1), (Capacity{{"nvidia.com/mig-2g.20gb", 3}}));
  EXPECT_EQ(named("all-3g.40gb", kH100, 8), (Capacity{{"nvidia.com/mig-3g.40gb", 16}}));
  EXPECT_EQ(named("all-7g.80gb", kH100, 8), (Capacity{{"nvidia.com/mig-7g.80gb", 8}}));
  EXPECT_EQ(named("all-1g.5gb", kA100, 1), (Capacity{{"nvidia.com/mig-1g.5gb", 7}}));
  EXPECT_EQ(named("all-1g.10gb", kA100, 1), (Capacity{{"nvidia.com/mig-1g.10gb", 4}}))
      << "on an A100-40GB that is one slice with double memory";
  EXPECT_EQ(named("all-balanced", kH100, 1),
            (Capacity{{"nvidia.com/mig-1g.10gb", 2}, {"nvidia.com/mig-2g.20gb", 1}, {"nvidia.com/mig-3g.40gb", 1}}));
  EXPECT_EQ(named("all-1g.6gb", "NVIDIA-A30", 2), (Capacity{{"nvidia.com/mig-1g.6gb", 8}}));
  EXPECT_EQ(named("all-balanced", "NVIDIA-A30", 1),
            (Capacity{{"nvidia.com/mig-1g.6gb", 2}, {"nvidia.com/mig-2g.12gb", 1}}));
  EXPECT_EQ(named("all-enabled", kH100, 8), Capacity{});
  EXPECT_EQ(named("all-disabled", kH100, 8), (Capacity{{"nvidia.com/gpu", 8}}));
  EXPECT_EQ(named("all-disabled", "Tesla-T4", 4), (Capacity{{"nvidia.com/gpu", 4}}));
  const auto single = layout_named("all-1g.10gb", {}, kH100, 8);
  ASSERT_TRUE(single);
  EXPECT_EQ(capacity_of(*single, true), (Capacity{{"nvidia.com/gpu", 56}}));
}

TEST(NodeLayout, NamesOfADefinitionList) {
  const Definitions own{{"half", {{{0, 1}, true, {{"1g.10gb", 7}}}}},
                        {"all-1g.10gb", {{{}, true, {{"1g.10gb", 1}}}}},
                        {"unequal", {{{0}, true, {{"3g.40gb", 1}, {"1g.10gb", 4}}}, {{1}, false, {}}}}};
  EXPECT_EQ(named("half", kH100, 4, own), (Capacity{{"nvidia.com/gpu", 2}, {"nvidia.com/mig-1g.10gb", 14}}));
  EXPECT_EQ(named("all-1g.10gb", kH100, 1, own), (Capacity{{"nvidia.com/mig-1g.10gb", 1}})) << "the list's own counts";
  EXPECT_EQ(named("unequal", kH100, 2, own),
            (Capacity{{"nvidia.com/gpu", 1}, {"nvidia.com/mig-1g.10gb", 4}, {"nvidia.com/mig-3g.40gb", 1}}));
}

TEST(NodeLayout, ALayoutThatFitsNoGpuIsRefused) {
  const Definitions own{{"eight", {{{}, true, {{"1g.10gb", 8}}}}},
                        {"fours", {{{}, true, {{"4g.40gb", 2}}}}},
                        {"million", {{{}, true, {{"1g.10gb", 1'000'000}}}}},
                        {"mixed", {{{}, true, {{"4g.40gb", 1}, {"3g.40gb", 1}, {"1g.10gb", 1}}}}},
                        {"far", {{{9}, true, {{"1g.10gb", 7}}}}}};
  for (const char* name : {"eight", "fours", "million", "mixed"})
    EXPECT_THAT(refused(name, kH100, 1, own), HasSubstr("which do not fit there together")) << name;
  EXPECT_THAT(refused("far", kH100, 8, own), HasSubstr("has device 9, and the node has 8 GPUs"));
  EXPECT_THAT(refused("all-1g.5gb", kH100, 1), HasSubstr("has no profile 1g.5gb"));
  EXPECT_THAT(refused("all-1g.10gb", "", 0), HasSubstr("a node without GPUs does not support MIG"));
  EXPECT_THAT(refused("mine", kH100, 1), HasSubstr("layout mine does not exist"));
}

TEST(NodeLayout, DerivesTheLayoutFromAdvertisedResources) {
  for (const char* name : {"all-1g.10gb", "all-balanced", "all-3g.40gb", "all-7g.80gb"}) {
    const auto layout = layout_named(name, {}, kH100, 8);
    ASSERT_TRUE(layout);
    EXPECT_EQ(layout_showing(capacity_of(*layout), kH100, 8), *layout) << name;
  }
  // Unevenly partitioned: the same number of instances, on GPUs that fit them.
  const Capacity uneven{{"nvidia.com/mig-1g.10gb", 5}, {"nvidia.com/mig-3g.40gb", 2}, {"nvidia.com/mig-4g.40gb", 1}};
  const auto found = layout_showing(uneven, kH100, 2);
  ASSERT_TRUE(found);
  EXPECT_EQ(capacity_of(*found),
            (Capacity{{"nvidia.com/mig-1g.10gb", 4}, {"nvidia.com/mig-3g.40gb", 2}, {"nvidia.com/mig-4g.40gb", 1}}))
      << "the five instances of one slice do not fit next to the others: one is left out";
  const auto partly = layout_showing({{"nvidia.com/gpu", 3}, {"nvidia.com/mig-2g.20gb", 3}}, kH100, 4);
  ASSERT_TRUE(partly);
  EXPECT_EQ(capacity_of(*partly), (Capacity{{"nvidia.com/gpu", 3}, {"nvidia.com/mig-2g.20gb", 3}}));
  EXPECT_FALSE(layout_showing({{"nvidia.com/gpu", 4}}, "Tesla-T4", 4));
  EXPECT_FALSE(layout_showing({{"nvidia.com/mig-1g.10gb", 7}}, kH100, 0));
}

TEST(NodeLayout, AnAdvertisedEighthInstanceIsIgnored) {  // S-119
  const auto eight = layout_showing({{"nvidia.com/mig-1g.10gb", 8}}, kH100, 1);
  ASSERT_TRUE(eight);
  EXPECT_EQ(capacity_of(*eight), (Capacity{{"nvidia.com/mig-1g.10gb", 7}}));
}

}  // namespace node_layout_test
}  // namespace qm::placement::mig
