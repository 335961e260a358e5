// The quota tree with manually computed numbers.
#include "qm/admission/kueue/tree.hpp"

#include "qm/admission/kueue/usage_shares.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace qm::admission::kueue {
namespace tree_test {

constexpr Cell kCpu = 0, kGpu = 1;

/// root(2) <- left(cohort) <- a(4), b(4, lends 1), root <- c(0, borrows 3); amounts of cpu.
Tree family() {
  return Tree({{"root", -1, false, 1, {{kCpu, {2, {}, {}}}}},
               {"left", 0, false, 1, {}},
               {"a", 1, true, 1, {{kCpu, {4, {}, {}}}}},
               {"b", 1, true, 2, {{kCpu, {4, {}, 1}}}},
               {"c", 0, true, 1, {{kCpu, {0, 3, {}}}}}},
              {0, 1});
}

TEST(KueueTree, ChangedQuotaLeavesUsageConsistent) {
  auto tree = family();
  tree.add(3, kCpu, 5);
  tree.set_quota(3, kCpu, {6, {}, 3});
  EXPECT_EQ(tree.subtree(1, kCpu), 7) << "4 of a and 3 that b lends";
  EXPECT_EQ(tree.used(3, kCpu), 5);
  EXPECT_EQ(tree.used(1, kCpu), 2) << "b keeps 3 of its own, as before";
  tree.set_quota(3, kCpu, {6, {}, 1});
  EXPECT_EQ(tree.used(1, kCpu), 0) << "all 5 are among what it keeps";
  EXPECT_EQ(tree.available(3, kCpu), 7);
}

TEST(KueueTree, QuotaAboveLocalPartGoesToParent) {
  auto tree = family();
  EXPECT_EQ(tree.subtree(1, kCpu), 5) << "4 of a and 1 that b lends";
  EXPECT_EQ(tree.subtree(0, kCpu), 7);
  EXPECT_EQ(tree.available(2, kCpu), 7);
  EXPECT_EQ(tree.available(3, kCpu), 10) << "3 that b keeps, and all of the tree";
  EXPECT_EQ(tree.available(4, kCpu), 3) << "its borrowing limit";
  EXPECT_EQ(tree.potential(4, kCpu), 3);
  tree.add(3, kCpu, 5);
  EXPECT_EQ(tree.used(1, kCpu), 2) << "3 of the 5 are within its own part";
  EXPECT_EQ(tree.available(2, kCpu), 5);
  tree.add(2, kCpu, 6);
  EXPECT_EQ(tree.available(0, kCpu), -1) << "a cohort may be overdrawn";
  EXPECT_EQ(tree.available(4, kCpu), 0) << "a queue has nothing then";
  EXPECT_EQ(tree.potential(2, kCpu), 7) << "whatever is used";
  tree.remove(2, kCpu, 6);
  tree.remove(3, kCpu, 5);
  for (Node n = 0; n < tree.size(); ++n) EXPECT_EQ(tree.used(n, kCpu), 0) << tree.name(n);
}

TEST(KueueTree, LevelIsHeightOfBorrowing) {
  auto tree = family();
  EXPECT_EQ(tree.level(2, kCpu, 4).height, 0);
  EXPECT_TRUE(tree.level(2, kCpu, 4).in_part);
  EXPECT_EQ(tree.level(2, kCpu, 5).height, 1) << "what b lends is in the cohort of both";
  EXPECT_TRUE(tree.level(2, kCpu, 5).in_part);
  EXPECT_EQ(tree.level(2, kCpu, 6).height, 2);
  EXPECT_FALSE(tree.level(2, kCpu, 6).in_part);
  EXPECT_EQ(tree.level(2, kCpu, 60).height, 2) << "above every level";
}

TEST(KueueTree, ShareIsUsageOfLendableQuota) {
  auto tree = family();
  tree.add(3, kCpu, 6);
  const auto share = tree.share(3);
  EXPECT_TRUE(share.borrowing);
  EXPECT_DOUBLE_EQ(share.ratio, 2 * 1000.0 / 7) << "2 beyond its 4, of the 7 that its cohort could hold";
  EXPECT_DOUBLE_EQ(share.weighted(), share.ratio / 2);
  EXPECT_EQ(share.most, std::optional<Resource>(0));
  EXPECT_FALSE(tree.share(2).borrowing);
  EXPECT_FALSE(tree.share(0).borrowing) << "a root does not borrow";
  Share free = share, heavier = share;
  free.weight = 0;
  heavier.ratio = share.ratio * 3;
  heavier.weight = 0;
  EXPECT_EQ(free.weighted(), std::numeric_limits<double>::infinity());
  EXPECT_LT(Share::compare(share, free), 0);
  EXPECT_LT(Share::compare(free, heavier), 0) << "of two without weight the ratios count";
  EXPECT_EQ(Share::compare(share, share), 0);
}

TEST(KueueTree, UnlimitedAbsorbsAndOthersSaturate) {
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(plus(kUnlimited, -5), kUnlimited);
  EXPECT_EQ(minus(kUnlimited, 5), kUnlimited);
  EXPECT_EQ(minus(kUnlimited, kUnlimited), 0);
  EXPECT_EQ(minus(5, kUnlimited), least);
  EXPECT_EQ(plus(kUnlimited - 1, 5), kUnlimited);
  EXPECT_EQ(minus(least, 1), least);
  Tree tree({{"q", -1, true, 1, {{kGpu, {kUnlimited, {}, {}}}}}}, {0, 1});
  tree.add(0, kGpu, 1'000'000);
  EXPECT_EQ(tree.available(0, kGpu), kUnlimited);
  EXPECT_EQ(tree.available(0, kCpu), 0);
}

TEST(KueueUsageShares, UsageHalvesInHalfLife) {
  UsageShares shares({.half_life = 10, .sampling = 10, .weights = {{1, 0.5}}});
  EXPECT_EQ(shares.of(7), 0) << "no usage was recorded";
  shares.set_consumed(7, {{0, 8}});
  EXPECT_DOUBLE_EQ(shares.of(7), 8);
  shares.penalize(7, {{0, 4}, {1, 4}});
  EXPECT_DOUBLE_EQ(shares.of(7), 8 + 2 + 1) << "half of what was admitted, the second resource counting half";
  shares.sample(7, {{0, 4}}, 10);
  EXPECT_DOUBLE_EQ(shares.of(7), 4 + 2) << "the sampling takes over from the penalty";
  shares.set_weight(7, 3);
  EXPECT_DOUBLE_EQ(shares.of(7), 2);
  shares.set_weight(7, 0);
  EXPECT_EQ(shares.of(7), std::numeric_limits<double>::infinity());
  UsageShares none({.half_life = 0, .sampling = 10, .weights = {}});
  none.set_consumed(1, {{0, 8}});
  none.sample(1, {{0, 8}}, 10);
  EXPECT_EQ(none.of(1), 0);
}

TEST(KueueAmounts, AreSortedAndUnique) {
  Amounts list;
  add_to(list, 3, 1);
  add_to(list, 1, 2);
  add_to(list, 3, 4);
  EXPECT_EQ(list, (Amounts{{1, 2}, {3, 5}}));
  EXPECT_EQ(amount_at(list, 3), 5);
  EXPECT_EQ(amount_at(list, 2), 0);
}

}  // namespace tree_test
}  // namespace qm::admission::kueue
