// A GPU cut anew: the cheapest steps, which instances, in which order, and what mig-parted would make of the counts.
#include "qm/placement/mig/reslice.hpp"

#include "test/mig/layouts.hpp"

#include <gtest/gtest.h>

namespace qm::placement::mig::testing {
namespace reslice_test {

const StateTable& table() { return StateTable::of(Family::kSeven); }
const Geometry& geometry() { return table().geometry(); }

/// "4g@0! 1g@4=5 1g@6": in use and not to be drained, in use at a drain of 5, idle.
Sliced gpu(std::string_view text) {
  Sliced out;
  std::vector<Spot> all;
  while (!text.empty()) {
    auto word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    const auto equals = word.find('=');
    std::optional<std::int64_t> drain;
    if (equals != std::string_view::npos) drain = word.back() - '0';
    const bool used = drain || word.ends_with('!');
    word = word.substr(0, equals != std::string_view::npos ? equals : word.size() - (used ? 1 : 0));
    const Spot spot = spots_of(geometry(), word).at(0);
    all.push_back(spot);
    if (used) out.used[table().find_spot(spot).value()] = drain;
  }
  out.layout = table().find(all);
  EXPECT_NE(out.layout, kNoState);
  return out;
}

std::string words(const std::vector<SpotId>& spots) {
  std::string out;
  for (const SpotId id : spots) {
    const Spot& spot = table().spot(id);
    out += fmt::format("{}{}@{}", out.empty() ? "" : " ", geometry().profiles[spot.profile].shape, spot.start);
  }
  return out;
}

std::string plan(const std::vector<Sliced>& gpus, const std::vector<ProfileId>& wanted,
                 const Policy& policy = FirstFit()) {
  const auto found = reslice(table(), gpus, wanted, {}, policy);
  if (!found) return "none";
  std::string out = fmt::format("gpu {} cost {}", found->gpu, found->cost);
  if (found->enable) out += "; enable";
  if (!found->drain.empty()) out += "; drain " + words(found->drain);
  if (!found->destroy.empty()) out += "; destroy " + words(found->destroy);
  if (!found->create.empty()) out += "; create " + words(found->create) + (found->order_reaches ? "" : " by name");
  out += "; serve " + words(found->serve);
  if (found->counts_reach) out += found->nothing_stays ? "; counts do" : "; counts would";
  return out;
}

TEST(Reslice, DrainsTwoSmallOnesForALargeOne) {
  EXPECT_EQ(plan({gpu("4g@0! 1g@4=5 1g@5=5")}, {seven::k3g}),
            "gpu 0 cost 13; drain 1g@4 1g@5; destroy 1g@4 1g@5; create 3g@4; serve 3g@4; counts would");
}

TEST(Reslice, IdleOnesGoFirst) {
  EXPECT_EQ(plan({gpu("1g@0=1 1g@1 1g@2 1g@3 1g@4! 1g@5 1g@6")}, {seven::k2g}),
            "gpu 0 cost 3; destroy 1g@2 1g@3; create 2g@2; serve 2g@2");
}

TEST(Reslice, TakesWhatIsThere) {
  EXPECT_EQ(plan({gpu("4g@0!"), gpu("3g@0! 3g@4")}, {seven::k3g}), "gpu 1 cost 0; serve 3g@4; counts would");
  EXPECT_EQ(plan({gpu("3g@0=2 3g@4!")}, {seven::k3g}), "gpu 0 cost 2; drain 3g@0; serve 3g@0; counts would")
      << "an instance that changes hands is not made anew";
}

TEST(Reslice, MakesRoomOnTheGpuWhereItIsCheapest) {
  EXPECT_EQ(plan({gpu("7g@0=9"), gpu("4g@0! 2g@4=1 1g@6=1"), gpu("4g@0! 1g@4=1 1g@6")}, {seven::k3g}),
            "gpu 2 cost 4; drain 1g@4; destroy 1g@4 1g@6; create 3g@4; serve 3g@4; counts would");
}

/// Between equal costs the policy decides: a 1g beside others, not where a 4g could go.
TEST(Reslice, LosesLeastBetweenEqualCosts) {
  const LeastLoss policy("scarcity", scarcity_worth(table(), {1, 0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(plan({gpu("")}, {seven::k3g}, FirstFit()), "gpu 0 cost 1; create 3g@0; serve 3g@0; counts do");
  EXPECT_EQ(plan({gpu("")}, {seven::k3g}, policy), "gpu 0 cost 1; create 3g@4 by name; serve 3g@4");
  EXPECT_EQ(plan({gpu(""), gpu("4g@0!")}, {seven::k3g}, policy), "gpu 1 cost 1; create 3g@4; serve 3g@4; counts would");
}

TEST(Reslice, SeveralAtOnceStandOnOneGpu) {
  EXPECT_EQ(plan({gpu("1g@0! 1g@4"), gpu("2g@0! 1g@2")}, {seven::k3g, seven::k1g}),
            "gpu 1 cost 1; create 3g@4; serve 1g@2 3g@4");
  EXPECT_EQ(plan({gpu("")}, {seven::k4g, seven::k4g}), "none");
  EXPECT_EQ(plan({gpu("1g@6")}, {seven::k3g, seven::k4g}),
            "gpu 0 cost 3; destroy 1g@6; create 4g@0 3g@4; serve 3g@4 4g@0; counts do");
}

TEST(Reslice, WhatStaysStaysAndHoldsItsSlices) {
  EXPECT_EQ(plan({gpu("1g@2!")}, {seven::k4g}), "none");
  EXPECT_EQ(plan({gpu("1g@2!")}, {seven::k7g}), "none");
  EXPECT_EQ(plan({gpu("1g+me@0!")}, {seven::k1gMedia}), "none") << "one set of media extensions";
  EXPECT_EQ(plan({gpu("3g@0! 1g@4! 1g@5 1g@6=3")}, {seven::k1g}), "gpu 0 cost 0; serve 1g@5; counts would");
}

/// The mode is switched on an idle GPU only.
TEST(Reslice, TheModeIsSwitchedOnAnIdleGpu) {
  Sliced off;
  off.mig = false;
  EXPECT_EQ(plan({off}, {seven::k1g}), "gpu 0 cost 11; enable; create 1g@0; serve 1g@0; counts do");
  off.whole = true;
  EXPECT_EQ(plan({off}, {seven::k1g}), "none");
  EXPECT_EQ(plan({off, gpu("7g@0=9")}, {seven::k1g}),
            "gpu 1 cost 11; drain 7g@0; destroy 7g@0; create 1g@0; serve 1g@0; counts do");
}

TEST(Reslice, WhatMigPartedMakesOfCounts) {
  const auto made = [](const Counts& counts) {
    const StateId state = parted_layout(table(), counts);
    return state == kNoState ? "none" : text_of(table(), state);
  };
  EXPECT_EQ(made({{seven::k1g, 7}}), "1g@0 1g@1 1g@2 1g@3 1g@4 1g@5 1g@6");
  EXPECT_EQ(made({{seven::k3g, 1}, {seven::k4g, 1}}), "3g@4 4g@0");
  EXPECT_EQ(made({{seven::k1g, 2}, {seven::k2g, 1}, {seven::k3g, 1}}), "1g@2 1g@3 2g@0 3g@4")
      << "largest first leaves no place for the second 1g; 2g first does";
  EXPECT_EQ(made({{seven::k4g, 2}}), "none");
  EXPECT_EQ(made({{seven::k7g, 1}, {seven::k1g, 1}}), "none");
  // Every multiset that some layout has is reached in some order.
  for (StateId state = 0; state < table().size(); ++state) {
    Counts counts;
    for (const Spot& spot : table().instances(state)) ++counts[spot.profile];
    EXPECT_NE(parted_layout(table(), counts), kNoState) << text_of(table(), state);
  }
}

}  // namespace reslice_test
}  // namespace qm::placement::mig::testing
