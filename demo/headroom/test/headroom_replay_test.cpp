// Free nodes on traces: hand-written cases, and the months of Philly.
#include "qm/headroom/replay.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

namespace qm::headroom {
namespace headroom_replay_test {

using trace::Job;

Outcome with(const std::vector<Job>& jobs, std::int64_t level) {
  return ShapeReplay::run(jobs, 1, Terms{}, 0, 10'000, [=](std::int64_t) { return level; });
}

TEST(HeadroomReplay, AFreeNodeHidesTheBootAndIsRefilled) {
  // The second job of the burst has no free node; the third comes after the refill.
  const std::vector<Job> jobs{{1000, 5000, 1, "a"}, {1000, 5000, 1, "a"}, {1300, 5000, 1, "a"}};
  EXPECT_EQ(with(jobs, 0).in_time, 0);
  EXPECT_EQ(with(jobs, 1).in_time, 2);
  EXPECT_EQ(with(jobs, 2).in_time, 3);
}

TEST(HeadroomReplay, FreeAndStartingNodesAreThePriceAndUsedOnesAreNot) {
  const double usd_node_second = 4.0 / 3600;
  EXPECT_NEAR(with({{9'999, 10, 1, "a"}}, 2).usd, 20'000 * usd_node_second, 4 * usd_node_second);
  const double cold = with({{0, 9'000, 3, "a"}}, 0).usd;
  EXPECT_NEAR(cold, 3 * 240 * usd_node_second, 1e-9) << "three nodes boot for 240 s";
}

TEST(HeadroomReplay, JobsRunOnTheSmallestShapeThatFits) {
  const std::vector<Job> jobs{{0, 1, 1, "a"}, {1, 1, 3, "a"}, {2, 1, 20, "a"}};
  EXPECT_EQ(jobs_of(jobs, 1).size(), 1U);
  EXPECT_EQ(jobs_of(jobs, 2).size(), 0U);
  EXPECT_EQ(jobs_of(jobs, 4).at(0).gpus, 1);
  EXPECT_EQ(jobs_of(jobs, 8).at(0).gpus, 3);
}

// Bursts of ten, three times a day at an irregular time: the planned level attains the quantile for less than a
// constant one, because after a quiet night it keeps nothing.
TEST(HeadroomReplay, PlannedLevelsCostLessThanAConstantOne) {
  std::vector<Job> jobs;
  for (std::int64_t day = 0; day < 40; ++day) {
    for (std::int64_t burst = 0; burst < 12; ++burst) {
      for (int job = 0; job < 10; ++job)
        jobs.push_back({day * 86'400 + 30'000 + (day * 7919) % 9'000 + burst * 2'700, 600, 1, "a"});
    }
  }
  Terms terms;
  terms.quantile_ppm = 900'000;
  const std::int64_t half = 20 * 86'400, until = 40 * 86'400;
  const Static constant = smallest_static(jobs, 1, terms, half, until);
  const auto plan = planned(jobs, 1, terms, half, until);
  ASSERT_TRUE(plan);
  EXPECT_EQ(constant.level, 9);
  EXPECT_GE(plan->share(), 0.9);
  EXPECT_LT(plan->usd, 0.7 * constant.outcome.usd);
}

// In the second half the quantile is attained, at no more than 70 % of the price of the smallest constant numbers of nodes
// that attain it.
TEST(HeadroomReplay, OnPhillyTheSloIsAttainedForLess) {
  const auto shared = qm::testing::shared_dir();
  if (!shared) GTEST_SKIP() << "no shared directory with traces";
  const std::string path = *shared + "/traces/philly/philly_jobs.csv";
  const auto jobs = trace::read_csv(qm::testing::read_file(path), path);
  ASSERT_TRUE(jobs) << jobs.error().to_string();
  const std::int64_t until = jobs->back().submit_s + 1, half = until / 2;
  struct Case {
    std::int64_t quantile_ppm, boot_s;
  };
  for (const Case& one : {Case{950'000, 240}, Case{900'000, 240}, Case{950'000, 300}}) {
    Terms terms;
    terms.quantile_ppm = one.quantile_ppm, terms.boot_s = one.boot_s;
    Outcome constant, plan;
    for (const std::int64_t gpus : kShapeGpus) {
      const auto own = jobs_of(*jobs, gpus);
      const auto outcome = planned(own, gpus, terms, half, until);
      ASSERT_TRUE(outcome) << outcome.error().to_string();
      plan.jobs += outcome->jobs, plan.in_time += outcome->in_time, plan.usd += outcome->usd;
      constant.usd += smallest_static(own, gpus, terms, half, until).outcome.usd;
    }
    EXPECT_GE(plan.share() * 1e6, static_cast<double>(one.quantile_ppm));
    EXPECT_LE(plan.usd, 0.70 * constant.usd);
  }
}

}  // namespace headroom_replay_test
}  // namespace qm::headroom
