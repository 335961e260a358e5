// The law: the bound is never below the optimum. Small fleets are searched exhaustively, larger
// ones are solved by GLPK, and on the largest no policy of pack exceeds the bound. This holds
// however early the search stops and however coarsely classes and nodes are merged.
#include "fleets.hpp"
#include "qm/placement/pack/inventory.hpp"
#include "qm/placement/pack/policy.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace qm::placement::bound::testing {
namespace bound_prop_test {

TEST(BoundLaws, ExhaustiveSearchNeverExceedsBound) {
  std::int64_t sum = 0, best = 0;
  for (std::uint64_t seed = 1; seed <= 1'500; ++seed) {
    Random random(seed);
    const auto question = random_query(random, {2, 2, 2, 3, 3});
    const auto found = Search(question).best();
    const auto bound = upper_bound(question.nodes, question.wanted);
    ASSERT_GE(bound.gpu_milli, found) << "seed " << seed;
    ASSERT_LE(bound.gpu_milli, std::min(question.capacity(), question.asked())) << "seed " << seed;
    ASSERT_EQ(bound.gpu_milli, upper_bound(question.nodes, question.wanted).gpu_milli) << "seed " << seed;
    sum += bound.gpu_milli;
    best += found;
  }
  fmt::print("small fleets: the bound is {:.2f} % above the best\n",
             100.0 * static_cast<double>(sum - best) / static_cast<double>(best));
  // With few nodes, fractions of patterns have the largest effect.
  EXPECT_LE(sum, best + best / 5);
}

TEST(BoundLaws, HoldForArbitraryPrices) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    const auto question = random_query(random, {3, 2, 2, 4, 2});
    const auto found = Search(question).best();
    for (int rounds = 0; rounds <= 12; ++rounds) {
      Effort effort;
      effort.rounds = rounds;
      ASSERT_GE(upper_bound(question.nodes, question.wanted, effort).gpu_milli, found) << seed << " after " << rounds;
    }
  }
}

TEST(BoundLaws, NoPolicyExceedsBound) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    Random random(seed);
    // Every third case has more classes than are kept separate; few rounds are enough there, since
    // any bound must hold.
    const bool large = seed % 3 == 0;
    const auto question = random_query(random, large ? Size{90, 4, 8, 400, 3} : Size{6, 4, 8, 12, 20});
    Effort effort;
    if (large) effort.rounds = 4;
    std::vector<pack::PodClass> pods;
    pack::Outlook outlook;
    for (const auto& one : question.wanted) {
      outlook.mix.push_back({one.pod, one.most});
      pods.insert(pods.end(), static_cast<std::size_t>(one.most), one.pod);
    }
    for (const auto& group : question.nodes) {
      outlook.capacity.insert(outlook.capacity.end(), static_cast<std::size_t>(group.count), group.node);
    }
    for (std::size_t i = pods.size(); i > 1; --i) {
      std::swap(pods[i - 1], pods[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
    }
    const auto bound = upper_bound(question.nodes, question.wanted, effort);
    for (const auto name : pack::policy_names()) {
      const auto policy = pack::make_policy(name, outlook);
      pack::Inventory fleet(*policy);
      for (const auto& node : outlook.capacity) fleet.add(node);
      std::int64_t used = 0;
      // Placed pods have a placement: requiring it must not lower the bound below what was reached.
      auto kept = question.wanted;
      for (const auto& pod : pods) {
        if (!fleet.place(pod)) continue;
        used += pod.gpus > 0 ? pod.total_milli() : 0;
        for (auto& one : kept) {
          if (one.pod == pod && one.least < one.most) {
            ++one.least;
            break;
          }
        }
      }
      ASSERT_GE(bound.gpu_milli, used) << name << ", seed " << seed;
      const auto keeping = upper_bound(question.nodes, kept, effort).gpu_milli;
      ASSERT_GE(keeping, used) << name << ", seed " << seed;
      if (large) continue;
      ASSERT_LE(keeping, bound.gpu_milli + bound.gpu_milli / 1'000) << name << ", seed " << seed;
    }
  }
}

TEST(BoundLaws, GlpkNeverExceedsBound) {
#ifdef QM_HAS_GLPK
  std::int64_t sum = 0, best = 0;
  int solved = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    auto question = random_query(random, {3, 3, 4, 8, 10});
    // Some pods must be placed: those of one known allocation.
    if (seed % 2 == 0) {
      std::vector<pack::NodeState> nodes;
      for (const auto& group : question.nodes)
        nodes.insert(nodes.end(), static_cast<std::size_t>(group.count), group.node);
      for (auto& one : question.wanted) {
        for (auto& node : nodes) {
          while (one.least < one.most / 2 && pack::fits(node, one.pod)) {
            node = pack::with(node, one.pod, node.free[0]);
            ++one.least;
          }
        }
      }
    }
    const auto found = optimum(question, 1'000);
    if (found < 0) continue;
    ++solved;
    const auto bound = upper_bound(question.nodes, question.wanted);
    ASSERT_GE(bound.gpu_milli, found) << "seed " << seed;
    sum += bound.gpu_milli;
    best += found;
  }
  fmt::print("{} fleets by GLPK: the bound is {:.2f} % above the best\n", solved,
             100.0 * static_cast<double>(sum - best) / static_cast<double>(best));
  EXPECT_GE(solved, 40);
  EXPECT_LE(sum, best + best / 12);
#else
  GTEST_SKIP() << "GLPK is not installed: libglpk-dev";
#endif
}

}  // namespace bound_prop_test
}  // namespace qm::placement::bound::testing
