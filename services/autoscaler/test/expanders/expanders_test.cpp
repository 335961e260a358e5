// Choice among node groups.
#include "qm/autoscaler/expanders/expanders.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

namespace qm::autoscaler::testing {
namespace expanders_test {

constexpr std::int64_t kGiB = 1LL << 30;

Expansion option(std::string group, std::int64_t nodes, std::int64_t usd) {
  Expansion out;
  out.group = std::move(group);
  out.nodes = nodes;
  out.pods = 1;
  out.per_hour = Money::nano(usd * 1'000'000'000);
  out.cpu_milli = nodes * 8000;
  out.memory_bytes = nodes * 32 * kGiB;
  out.used_cpu_milli = 4000;
  out.used_memory_bytes = 8 * kGiB;
  return out;
}

std::string chosen(std::vector<Expander> chain, const std::vector<Expansion>& options, std::uint64_t seed = 0) {
  return options[choose_expansion(chain, options, seed)].group;
}

TEST(Expanders, EachHasItsOwnBest) {
  std::vector<Expansion> options{option("a", 3, 5), option("b", 2, 9), option("c", 1, 20)};
  options[0].pods = 7;
  options[1].priority = 10;
  options[2].cpu_milli = 64000;  // 60 of 64 cores are idle
  EXPECT_EQ(chosen({Expander::kPriority}, options), "b");
  EXPECT_EQ(chosen({Expander::kPrice}, options), "a");
  EXPECT_EQ(chosen({Expander::kMostPods}, options), "a");
  EXPECT_EQ(chosen({Expander::kLeastNodes}, options), "c");
  EXPECT_EQ(chosen({Expander::kLeastWaste}, options), "b");
}

// S-163: priority is one expander of a chain, next to least-waste and price.
TEST(Expanders, AChainBreaksTiesInItsOrder) {
  std::vector<Expansion> options{option("ondemand-a", 2, 9), option("ondemand-b", 1, 8), option("spot", 1, 3)};
  options[0].priority = options[1].priority = 50;
  options[2].priority = 10;
  EXPECT_EQ(chosen({Expander::kPriority}, options), "ondemand-a") << "the first of those that remain";
  EXPECT_EQ(chosen({Expander::kPriority, Expander::kLeastWaste}, options), "ondemand-b");
  EXPECT_EQ(chosen({Expander::kPriority, Expander::kPrice}, options), "ondemand-b");
  EXPECT_EQ(chosen({Expander::kLeastNodes, Expander::kPrice}, options), "spot");
}

TEST(Expanders, WithoutAnyPriorityAllGroupsRemain) {
  EXPECT_EQ(chosen({Expander::kPriority, Expander::kPrice}, {option("a", 1, 5), option("b", 1, 4)}), "b");
}

TEST(Expanders, RandomFollowsTheSeedAndUsesEveryGroup) {
  const std::vector<Expansion> options{option("a", 1, 1), option("b", 1, 1), option("c", 1, 1)};
  std::map<std::string, int> counts;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const auto first = chosen({Expander::kRandom}, options, seed);
    EXPECT_EQ(chosen({Expander::kRandom}, options, seed), first);
    ++counts[first];
  }
  for (const auto& [group, count] : counts) EXPECT_GT(count, 60) << group;
  EXPECT_EQ(counts.size(), 3U);
}

TEST(Expanders, HaveTheNamesOfTheFlag) {
  for (const char* name : {"priority", "price", "least-waste", "most-pods", "least-nodes", "random"}) {
    ASSERT_TRUE(expander_of(name)) << name;
    EXPECT_EQ(name_of(*expander_of(name)), name);
  }
  EXPECT_FALSE(expander_of("grpc"));
}

// No other option is better by the first expander that tells the two apart.
RC_GTEST_PROP(Expanders, TheChosenGroupIsBestInTheOrderOfTheChain, ()) {
  const auto count = *rc::gen::inRange(1, 8);
  std::vector<Expansion> options;
  for (int i = 0; i < count; ++i) {
    Expansion one =
        option(std::string(1, static_cast<char>('a' + i)), *rc::gen::inRange(1, 4), *rc::gen::inRange(1, 4));
    if (*rc::gen::arbitrary<bool>()) one.priority = *rc::gen::inRange(0, 3);
    one.pods = *rc::gen::inRange(1, 3);
    options.push_back(one);
  }
  const std::vector<Expander> chain{Expander::kPriority, Expander::kMostPods, Expander::kPrice};
  const auto rank = [](const Expansion& e) {
    return std::tuple(!e.priority, -e.priority.value_or(0), -e.pods, e.per_hour, e.group);
  };
  const Expansion& best = options[choose_expansion(chain, options, 0)];
  for (const auto& other : options) RC_ASSERT(!(rank(other) < rank(best)));
}

}  // namespace expanders_test
}  // namespace qm::autoscaler::testing
