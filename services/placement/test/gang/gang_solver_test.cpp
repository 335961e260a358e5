// A thousand gangs in fleets of up to 64 nodes compared with the optimum: placed whenever a
// placement exists, as deep as possible, at the least cost.
#include "test/gang/solver.hpp"

#include <iostream>

namespace qm::placement::gang::testing {
namespace gang_solver_test {

#ifdef QM_HAS_GLPK

struct Tally {
  int instances = 0, placed = 0, infeasible = 0, unknown = 0, several = 0;
  double worst = 1, sum = 0;
};

/// Solves for the pod counts of the result, with its groups in one domain of these levels.
void compare(const World& world, const Request& request, const Answer& answer, Tally& tally) {
  constexpr int kMs = 500;
  using Verdict = Solver::Verdict;
  std::vector<PodSet> sets;
  std::vector<FlatGroup> groups;
  flatten(request.gang, sets, groups);
  std::vector<Level> levels;
  for (const auto& group : groups) levels.push_back(group.required);
  ++tally.instances;
  tally.several += sets.size() > 1 ? 1 : 0;
  ASSERT_TRUE(answer.exact);
  if (!answer.placed()) {
    const auto solved = Solver(world, request, levels).solve(kMs);
    ASSERT_NE(solved.verdict, Verdict::kOptimal) << "the solver places " << solved.cost;
    (solved.verdict == Verdict::kUnknown ? tally.unknown : tally.infeasible) += 1;
    return;
  }
  // Each group one level deeper than in the result must be infeasible, with the later groups as wide as allowed.
  for (std::size_t g = 0; g < groups.size(); ++g) {
    levels[g] = std::max(answer.levels[g], groups[g].required) + 1;
    if (levels[g] <= groups[g].preferred) {
      const auto deeper = Solver(world, request, levels).solve(kMs);
      tally.unknown += deeper.verdict == Verdict::kUnknown ? 1 : 0;
      ASSERT_NE(deeper.verdict, Verdict::kOptimal) << "group " << g << " could be in one of level " << levels[g];
    }
    --levels[g];
  }
  const auto solved = Solver(world, request, levels).solve(kMs);
  if (solved.verdict == Verdict::kUnknown) {
    ++tally.unknown;
    return;
  }
  ASSERT_EQ(solved.verdict, Verdict::kOptimal) << "the solver places nothing";
  const auto ratio = static_cast<double>(answer.cost) / static_cast<double>(solved.cost);
  ASSERT_GE(ratio, 1) << "ours costs " << answer.cost << ", the solver's " << solved.cost;
  ASSERT_LE(ratio, 1.02) << "ours costs " << answer.cost << ", the solver's " << solved.cost;
  tally.worst = std::max(tally.worst, ratio);
  tally.sum += ratio;
  ++tally.placed;
}

TEST(GangSolver, ThousandGangsCloseToOptimal) {
  Tally tally;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const bool shares = random.one_in(4);
    const std::int32_t sets = random.one_in(2) ? 1 : random.between(2, 3);
    World world = some_world(random, {shares ? 16 : 64, shares});
    const GangSize size{sets, sets == 1 ? random.between(8, 200) : random.between(6, 32), shares, false, true};
    const Request request = some_gang(random, world.fleet.tree(), size);
    const auto answer = place(world.fleet, request);
    ASSERT_TRUE(answer);
    ASSERT_NO_FATAL_FAILURE(compare(world, request, *answer, tally));
    if (!answer->placed()) continue;
    ASSERT_NO_FATAL_FAILURE(satisfies_laws(world, request, *answer));
  }
  std::cout << fmt::format(
      "{} instances, {} of several sets: {} placed, cost over the optimum worst {:.4f}, mean {:.4f}; {} are infeasible, as the solver "
      "confirms; {} the solver did not decide in time\n",
      tally.instances, tally.several, tally.placed, tally.worst, tally.sum / tally.placed, tally.infeasible,
      tally.unknown);
  EXPECT_GT(tally.placed, 300);
  EXPECT_GT(tally.infeasible, 200);
  EXPECT_LT(tally.unknown, 60);
}

#else

TEST(GangSolver, ThousandGangsCloseToOptimal) { GTEST_SKIP() << "GLPK is not here: apt-get install libglpk-dev"; }

#endif

}  // namespace gang_solver_test
}  // namespace qm::placement::gang::testing
