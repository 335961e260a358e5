// Layouts that mig-parted creates for counts of instances.
#include "qm/placement/mig/parted_layout.hpp"

#include "test/mig/layouts.hpp"

#include <gtest/gtest.h>

namespace qm::placement::mig::testing {
namespace parted_layout_test {

const StateTable& table() { return StateTable::of(Family::kSeven); }

TEST(PartedLayout, PlacesTheCountsInTheOrderOfMigParted) {
  const auto made = [](const Counts& counts) {
    const StateId state = parted_layout(table(), counts);
    return state == kNoState ? "none" : text_of(table(), state);
  };
  EXPECT_EQ(made({{seven::k1g, 7}}), "1g@0 1g@1 1g@2 1g@3 1g@4 1g@5 1g@6");
  EXPECT_EQ(made({{seven::k3g, 1}, {seven::k4g, 1}}), "3g@4 4g@0");
  EXPECT_EQ(made({{seven::k1g, 2}, {seven::k2g, 1}, {seven::k3g, 1}}), "1g@2 1g@3 2g@0 3g@4")
      << "with the largest first, the second 1g does not fit; with 2g first it does";
  EXPECT_EQ(made({{seven::k4g, 2}}), "none");
  EXPECT_EQ(made({{seven::k7g, 1}, {seven::k1g, 1}}), "none");
}

TEST(PartedLayout, ReachesTheCountsOfEveryLayout) {
  for (StateId state = 0; state < table().size(); ++state) {
    Counts counts;
    for (const Spot& spot : table().instances(state)) ++counts[spot.profile];
    EXPECT_NE(parted_layout(table(), counts), kNoState) << text_of(table(), state);
  }
}

}  // namespace parted_layout_test
}  // namespace qm::placement::mig::testing
