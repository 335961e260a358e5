// The tables of layouts compared with an enumeration that paints slices, and with counts computed by hand.
#include "qm/placement/mig/table.hpp"

#include "test/mig/layouts.hpp"

#include <gtest/gtest.h>

#include <map>

namespace qm::placement::mig::testing {
namespace table_test {

/// All legal layouts, each spot used or not, as sorted lists of spots.
std::set<std::vector<Spot>> enumerate(const Geometry& geometry) {
  std::vector<Spot> spots;
  for (ProfileId profile = 0; profile < geometry.profiles.size(); ++profile) {
    for (int start = 0; start < geometry.memory_slices; ++start) {
      const Spot spot{profile, static_cast<std::int8_t>(start)};
      if (legal(geometry, {spot})) spots.push_back(spot);
    }
  }
  std::set<std::vector<Spot>> out;
  std::vector<Spot> taken;
  const std::function<void(std::size_t)> decide = [&](std::size_t next) {
    if (next == spots.size()) {
      out.insert(taken);
      return;
    }
    decide(next + 1);
    taken.push_back(spots[next]);
    if (legal(geometry, taken)) decide(next + 1);  // an illegal set stays illegal with more instances
    taken.pop_back();
  };
  decide(0);
  return out;
}

/// True if no instance of any profile fits in addition.
bool is_maximal(const StateTable& table, StateId state) {
  for (ProfileId profile = 0; profile < table.geometry().profiles.size(); ++profile) {
    if (table.fits(state, profile)) return false;
  }
  return true;
}

struct Counts {
  std::size_t states = 0, maximal = 0, multisets = 0, maximal_multisets = 0;
  friend bool operator==(const Counts&, const Counts&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Counts& c) {
    return out << c.states << " / " << c.maximal << " / " << c.multisets << " / " << c.maximal_multisets;
  }
};

/// A multiset counts as maximal if some layout of it has space for no further instance.
Counts counts_of(const StateTable& table) {
  Counts out{table.size(), 0, 0, 0};
  std::set<std::vector<ProfileId>> all, maximal;
  for (StateId state = 0; state < table.size(); ++state) {
    std::vector<ProfileId> profiles;
    for (const Spot& spot : table.instances(state)) profiles.push_back(spot.profile);
    all.insert(profiles);
    if (!is_maximal(table, state)) continue;
    ++out.maximal;
    maximal.insert(profiles);
  }
  out.multisets = all.size();
  out.maximal_multisets = maximal.size();
  return out;
}

void expect_enumerated(const Geometry& geometry, const Counts& expected) {
  const StateTable table(geometry);
  const auto layouts = enumerate(geometry);
  EXPECT_EQ(counts_of(table), expected);
  ASSERT_EQ(table.size(), layouts.size());
  for (const auto& layout : layouts) {
    const StateId state = table.find(layout);
    ASSERT_NE(state, kNoState);
    ASSERT_EQ(table.instances(state), layout);
    for (SpotId spot = 0; spot < table.spots().size(); ++spot) {
      auto more = layout;
      more.push_back(table.spot(spot));
      std::ranges::sort(more);
      const StateId next = table.place(state, spot);
      ASSERT_EQ(next != kNoState, legal(geometry, more)) << text_of(table, state) << " and " << int{spot};
      ASSERT_TRUE(next == kNoState || (next > state && table.instances(next) == more));
      ASSERT_EQ(table.free(state, spot) != kNoState, table.has(state, spot));
      ASSERT_TRUE(next == kNoState || table.free(next, spot) == state);
    }
  }
}

TEST(MigTable, SevenSlicesWithoutDoubleMemory) {
  expect_enumerated(without(geometry_of(Family::kSeven), {"1g.2m", "1g+me"}), {298, 19, 38, 14});
}
TEST(MigTable, SevenSlicesWithDoubleMemory) {
  expect_enumerated(without(geometry_of(Family::kSeven), {"1g+me"}), {723, 78, 78, 38});
}
TEST(MigTable, FourSlices) {
  expect_enumerated(without(geometry_of(Family::kFour), {"1g+me", "2g+me"}), {26, 5, 10, 4});
}

/// With the media extensions: the tables that the product uses.
TEST(MigTable, AllProfiles) {
  expect_enumerated(geometry_of(Family::kSeven), {2319, 239, 128, 64});
  expect_enumerated(geometry_of(Family::kFour), {76, 17, 20, 8});
  EXPECT_EQ(StateTable::of(Family::kSeven).size(), 2319U);
  EXPECT_EQ(StateTable::of(Family::kFour).size(), 76U);
}

TEST(MigTable, TheFourteenMaximalCombinations) {
  const StateTable table(without(geometry_of(Family::kSeven), {"1g.2m", "1g+me"}));
  std::set<std::string> seen;
  for (StateId state = 0; state < table.size(); ++state) {
    if (!is_maximal(table, state)) continue;
    std::map<std::string_view, int> count;
    for (const Spot& spot : table.instances(state)) ++count[table.geometry().profiles[spot.profile].shape];
    std::string text;
    for (const auto& [shape, n] : count) text += fmt::format("{}{}x{}", text.empty() ? "" : " ", n, shape);
    seen.insert(text);
  }
  EXPECT_EQ(seen, (std::set<std::string>{"7x1g", "5x1g 1x2g", "3x1g 2x2g", "1x1g 3x2g", "4x1g 1x3g", "2x1g 1x2g 1x3g",
                                         "3x1g 1x3g", "1x1g 1x2g 1x3g", "2x2g 1x3g", "3x1g 1x4g", "1x1g 1x2g 1x4g",
                                         "1x3g 1x4g", "2x3g", "1x7g"}));
}

TEST(MigTable, LegalAndIllegalLayouts) {
  const StateTable& table = StateTable::of(Family::kSeven);
  for (const char* layout : {"4g@0 4g@0", "4g@0 4g@4", "2g@0 2g@2 2g@4 2g@6", "3g@0 3g@4 3g@0", "7g@0 1g@0",
                             "7g@0 1g@6", "3g@0 4g@0", "2g@6", "1g@7", "3g@2", "2g@1", "1g@0 1g@0", "1g+me@0 1g+me@1",
                             "3g@0 3g@4 1g.2m@6", "4g@0 2g@4 1g.2m@6 1g@3"}) {
    EXPECT_EQ(state_of(table, layout), kNoState) << layout;
  }
  for (const char* layout : {"4g@0 3g@4", "3g@0 3g@4", "1g@0 1g@1 1g@2 1g@3 1g@4 1g@5 1g@6", "2g@0 2g@2 2g@4 1g@6",
                             "1g.2m@0 1g.2m@2 1g.2m@4 1g.2m@6", "4g@0 2g@4 1g.2m@6", "7g@0", "1g+me@3 3g@4", ""}) {
    EXPECT_NE(state_of(table, layout), kNoState) << layout;
  }
  const StateTable& small = StateTable::of(Family::kFour);
  EXPECT_EQ(state_of(small, "4g@0 1g@0"), kNoState);
  EXPECT_EQ(state_of(small, "2g@0 2g@2 1g@3"), kNoState);
  EXPECT_EQ(state_of(small, "1g+me@0 2g+me@2"), kNoState) << "one set of media extensions";
  EXPECT_NE(state_of(small, "2g+me@0 1g@2 1g@3"), kNoState);
}

/// S-119: each instance has memory and SMs of its own, and an eighth instance fits on no GPU.
TEST(MigTable, NoGpuHasAnEighthInstance) {
  for (const Family family : {Family::kSeven, Family::kFour}) {
    const StateTable& table = StateTable::of(family);
    std::size_t most = 0;
    for (StateId state = 0; state < table.size(); ++state) most = std::max(most, table.instances(state).size());
    EXPECT_EQ(most, family == Family::kSeven ? 7U : 4U);
  }
  for (const Model& model : models()) {
    const auto& profiles = geometry_of(model.family).profiles;
    for (ProfileId id = 0; id < profiles.size(); ++id) {
      if (model.profiles[id].name.empty()) continue;
      EXPECT_GT(model.profiles[id].memory_gb, 0);
      EXPECT_LE(model.profiles[id].memory_gb, model.profiles.back().memory_gb) << model.name;
      EXPECT_LE(model.profiles[id].sms * profiles[id].most, model.profiles.back().sms) << model.name;
    }
  }
}

/// Instances on one GPU have separate slices of memory.
TEST(MigTable, NoSliceBelongsToTwoInstances) {
  for (const Family family : {Family::kSeven, Family::kFour}) {
    const StateTable& table = StateTable::of(family);
    for (StateId state = 0; state < table.size(); ++state) {
      std::map<int, int> owners;
      for (const Spot& spot : table.instances(state)) {
        for (int slice = 0; slice < table.geometry().profiles[spot.profile].memory; ++slice)
          ++owners[spot.start + slice];
      }
      int memory = 0;
      for (const auto& [slice, n] : owners) {
        ASSERT_EQ(n, 1) << text_of(table, state);
        ++memory;
      }
      ASSERT_EQ(memory, table.memory_used(state));
      ASSERT_LE(table.compute_used(state), table.geometry().compute_slices);
    }
  }
}

}  // namespace table_test
}  // namespace qm::placement::mig::testing
