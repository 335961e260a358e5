// Victims by the three policies, by hand and compared with a search through all sets.
#include "qm/admission/volcano/victim_policies.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>

namespace qm::admission::volcano {
namespace victim_policies_test {

using Names = std::vector<std::string>;

Names names_of(const std::vector<Candidate>& running, const Victims& victims) {
  Names out;
  for (const auto i : victims.chosen) out.push_back(running[i].name);
  return out;
}

std::vector<Candidate> of_sizes(const std::vector<std::int64_t>& sizes) {
  std::vector<Candidate> out;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    out.push_back({fmt::format("job-{}", i), 0, static_cast<std::int64_t>(i), {sizes[i]}});
  }
  return out;
}

std::vector<std::int64_t> sizes_of(const std::vector<Candidate>& running, const Victims& victims) {
  std::vector<std::int64_t> out;
  for (const auto i : victims.chosen) out.push_back(running[i].frees[0]);
  return out;
}

// S-108: one queue, one need, three policies, three documented sets.
TEST(VictimPolicies, ThreePoliciesChooseThreeSets) {
  const std::vector<Candidate> running{
      {"first", 3, 1, {16}}, {"whole", 9, 2, {8}},  {"humble-a", 1, 3, {4}}, {"humble-b", 1, 4, {4}},
      {"late-a", 3, 5, {2}}, {"late-b", 3, 6, {2}}, {"late-c", 3, 7, {2}},   {"late-d", 3, 8, {2}},
  };
  const Resources need{8};
  EXPECT_EQ(names_of(running, choose(VictimPolicy::kFifo, running, need)),
            (Names{"late-d", "late-c", "late-b", "late-a"}));
  EXPECT_EQ(names_of(running, choose(VictimPolicy::kPriority, running, need)), (Names{"humble-b", "humble-a"}));
  EXPECT_EQ(names_of(running, choose(VictimPolicy::kBestFit, running, need)), (Names{"whole"}));
}

TEST(VictimPolicies, HaveNames) {
  EXPECT_EQ(policy_of("FIFO"), VictimPolicy::kFifo);
  EXPECT_EQ(policy_of("priority"), VictimPolicy::kPriority);
  EXPECT_EQ(policy_of("bestFit"), VictimPolicy::kBestFit);
  EXPECT_EQ(policy_of("best"), std::nullopt);
}

// S-109: the one job with the closest size, not several small ones.
TEST(BestFit, TakesClosestSet) {
  const auto running = of_sizes({2, 2, 2, 2, 8, 16});
  EXPECT_EQ(sizes_of(running, choose(VictimPolicy::kBestFit, running, {8})), (std::vector<std::int64_t>{8}));
  EXPECT_EQ(sizes_of(running, choose(VictimPolicy::kBestFit, running, {6})), (std::vector<std::int64_t>{8}));
  EXPECT_EQ(sizes_of(running, choose(VictimPolicy::kBestFit, running, {9})), (std::vector<std::int64_t>{16}));
  EXPECT_EQ(sizes_of(running, choose(VictimPolicy::kBestFit, running, {18})), (std::vector<std::int64_t>{16, 2}));
}

TEST(VictimPolicies, NoVictimWithoutNeed) {
  const auto running = of_sizes({4, 4});
  for (const auto policy : {VictimPolicy::kFifo, VictimPolicy::kPriority, VictimPolicy::kBestFit}) {
    const auto none = choose(policy, running, {9});
    EXPECT_FALSE(none.enough);
    EXPECT_TRUE(none.chosen.empty());
    const auto idle = choose(policy, running, {0});
    EXPECT_TRUE(idle.enough);
    EXPECT_TRUE(idle.chosen.empty());
  }
}

TEST(VictimPolicies, UnneededVictimIsSpared) {
  const auto running = of_sizes({1, 8, 2});
  EXPECT_EQ(sizes_of(running, choose(VictimPolicy::kFifo, running, {8})), (std::vector<std::int64_t>{8}));
  const std::vector<Candidate> mixed{{"cpu", 0, 1, {0, 9}}, {"both", 0, 2, {4, 4}}, {"gpu", 0, 3, {4, 0}}};
  EXPECT_EQ(names_of(mixed, choose(VictimPolicy::kFifo, mixed, {4, 0})), Names{"gpu"});
  EXPECT_EQ(names_of(mixed, choose(VictimPolicy::kFifo, mixed, {4, 4})), Names{"both"});
}

TEST(BestFit, ComparesAllResourcesTogether) {
  const std::vector<Candidate> running{
      {"a", 0, 1, {8, 10}}, {"b", 0, 2, {4, 90}}, {"c", 0, 3, {4, 20}}, {"d", 0, 4, {1, 30}}};
  EXPECT_EQ(names_of(running, choose(VictimPolicy::kBestFit, running, {8, 30})), (Names{"d", "a"}))
      << "a third too much at most; c and a would be half too much";
  EXPECT_EQ(names_of(running, choose(VictimPolicy::kBestFit, running, {5, 40})), (Names{"d", "c"}));
}

TEST(BestFit, ReturnsBestFoundAtSearchLimit) {
  std::vector<std::int64_t> sizes;
  std::mt19937_64 random(109);
  for (int i = 0; i < 60; ++i) sizes.push_back(1'000 + static_cast<std::int64_t>(random() % 1'000'000));
  const auto running = of_sizes(sizes);
  const auto cut = choose(VictimPolicy::kBestFit, running, {9'000'001}, 20'000);
  EXPECT_TRUE(cut.enough);
  EXPECT_FALSE(cut.proven);
  std::int64_t freed = 0;
  for (const auto size : sizes_of(running, cut)) freed += size;
  EXPECT_GE(freed, 9'000'001);
  EXPECT_EQ(choose(VictimPolicy::kBestFit, running, {9'000'001}, 20'000).chosen, cut.chosen)
      << "the bound counts steps";

  const auto none_found = choose(VictimPolicy::kBestFit, running, {9'000'001}, 1);
  EXPECT_TRUE(none_found.enough);
  EXPECT_FALSE(none_found.proven);
  auto largest = sizes;
  std::ranges::sort(largest, std::greater<>());
  EXPECT_EQ(sizes_of(running, none_found).front(), largest.front());
}

/// Small instances: up to ten jobs, up to three resources, small numbers so that ties are frequent.
struct World {
  std::vector<Candidate> running;
  Resources need;
};

World some_world(std::mt19937_64& random) {
  const auto upto = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
  };
  const auto resources = 1 + upto(2);
  World out;
  for (std::int64_t i = upto(10); i > 0; --i) {
    Candidate job{fmt::format("job-{}", i), static_cast<std::int32_t>(upto(2)), upto(3), {}};
    for (std::int64_t r = 0; r < resources; ++r) job.frees.push_back(upto(6));
    out.running.push_back(std::move(job));
  }
  for (std::int64_t r = 0; r < resources; ++r) out.need.push_back(upto(14));
  return out;
}

/// The order of the policy bestFit, implemented a second time.
std::vector<std::size_t> order_of(const World& world) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < world.running.size(); ++i) out.push_back(i);
  std::ranges::sort(out, [&](std::size_t i, std::size_t j) {
    const auto &a = world.running[i], &b = world.running[j];
    return std::tuple(a.priority, -a.since, b.name) < std::tuple(b.priority, -b.since, a.name);
  });
  return out;
}

/// Tries all sets: the best by size, then surplus, then order; nothing where no set meets the need.
std::optional<std::vector<std::size_t>> by_force(const World& world) {
  const auto order = order_of(world);
  std::optional<std::vector<std::size_t>> best;
  double least = 0;
  for (std::uint32_t set = 0; set < (1U << order.size()); ++set) {
    std::vector<std::size_t> chosen;
    Resources freed(world.need.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      if ((set >> i & 1U) == 0) continue;
      chosen.push_back(i);
      for (std::size_t r = 0; r < freed.size(); ++r) freed[r] += world.running[order[i]].frees[r];
    }
    double surplus = 0;
    bool met = true;
    for (std::size_t r = 0; r < freed.size(); ++r) {
      met = met && freed[r] >= world.need[r];
      if (world.need[r] > 0) {
        surplus = std::max(surplus, static_cast<double>(freed[r] - world.need[r]) / static_cast<double>(world.need[r]));
      }
    }
    if (!met) continue;
    if (!best || std::tuple(chosen.size(), surplus, chosen) < std::tuple(best->size(), least, *best)) {
      best = chosen;
      least = surplus;
    }
  }
  if (best) {
    for (auto& i : *best) i = order[i];
  }
  return best;
}

// S-109: 10,000 random cases compared with all sets.
TEST(BestFit, AgreesWithExhaustiveSearch) {
  std::mt19937_64 random(20'109);
  int met = 0, several = 0;
  for (int n = 0; n < 10'000; ++n) {
    const auto world = some_world(random);
    const auto expected = by_force(world);
    const auto got = choose(VictimPolicy::kBestFit, world.running, world.need);
    ASSERT_EQ(got.enough, expected.has_value()) << n;
    ASSERT_TRUE(got.proven) << n;
    if (!expected) continue;
    ASSERT_EQ(got.chosen, *expected) << "case " << n;
    ++met;
    several += expected->size() > 1 ? 1 : 0;
  }
  EXPECT_GT(met, 5'000);
  EXPECT_GT(several, 2'000);
}

TEST(VictimPolicies, MeetTheNeedSpareUnneededAndIgnoreNodes) {
  std::mt19937_64 random(20'108);
  for (int n = 0; n < 5'000; ++n) {
    auto world = some_world(random);
    for (const auto policy : {VictimPolicy::kFifo, VictimPolicy::kPriority, VictimPolicy::kBestFit}) {
      const auto got = choose(policy, world.running, world.need);
      ASSERT_EQ(got.enough, by_force(world).has_value());
      for (std::size_t out = 0; out <= got.chosen.size() && got.enough; ++out) {
        Resources freed(world.need.size());
        for (std::size_t i = 0; i < got.chosen.size(); ++i) {
          if (i != out) add(freed, world.running[got.chosen[i]].frees);
        }
        ASSERT_EQ(within(world.need, freed), out == got.chosen.size()) << "case " << n << ": one too many, or too few";
      }
      auto shuffled = world.running;
      std::ranges::shuffle(shuffled, random);
      ASSERT_EQ(names_of(shuffled, choose(policy, shuffled, world.need)), names_of(world.running, got)) << "case " << n;
    }
  }
}

}  // namespace victim_policies_test
}  // namespace qm::admission::volcano
