#include "qm/placement/minimal_subset.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace qm::placement {
namespace {

int sum(const std::vector<int>& items) { return std::accumulate(items.begin(), items.end(), 0); }

TEST(MinimalSubset, LaterItemsAreDroppedFirst) {
  const auto enough = [](const std::vector<int>& items) { return sum(items) >= 4; };
  EXPECT_EQ(minimal_subset(std::vector{4, 4, 4}, enough), (std::vector{4}));
  EXPECT_EQ(minimal_subset(std::vector{2, 3, 1}, enough), (std::vector{2, 3}));
  EXPECT_EQ(minimal_subset(std::vector{1, 3, 4}, enough), (std::vector{1, 3}));
}

TEST(MinimalSubset, EveryItemMayBeDropped) {
  EXPECT_TRUE(minimal_subset(std::vector{1, 2}, [](const auto&) { return true; }).empty());
  EXPECT_TRUE(minimal_subset(std::vector<int>(), [](const auto&) { return false; }).empty());
}

TEST(MinimalSubset, NoItemIsDroppedIfAllAreNeeded) {
  EXPECT_EQ(minimal_subset(std::vector{1, 2}, [](const auto&) { return false; }), (std::vector{1, 2}));
}

TEST(MinimalSubset, TheLastSubsetThatFitsIsTheResult) {
  std::vector<int> kept{5, 1, 2};
  const auto found = minimal_subset(kept, [&](const std::vector<int>& items) {
    if (sum(items) < 6) return false;
    kept = items;
    return true;
  });
  EXPECT_EQ(found, kept);
  EXPECT_EQ(found, (std::vector{5, 1}));
}

}  // namespace
}  // namespace qm::placement
