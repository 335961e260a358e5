// Checkpoint intervals: Daly's formula with its two cases, waste, and hazards.
#include "qm/autoscaler/checkpoint/interval.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace qm::autoscaler::checkpoint {
namespace interval_test {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

double minutes_of(Duration d) { return static_cast<double>(d.count()) / 60e6; }

TEST(DalyInterval, AMinuteEveryFourHours) {
  const Duration interval = daly_interval(seconds(60), hours(4));
  EXPECT_NEAR(minutes_of(interval), 21.2, 0.1);
  EXPECT_NEAR(expected_waste(seconds(60), interval, hours(4), Duration{0}), 0.09, 0.003);
}

TEST(DalyInterval, HasTwoCases) {
  // C = 2M is the border: a save that takes longer than two mean times.
  EXPECT_EQ(daly_interval(hours(2), hours(1)), Duration(hours(1)));
  EXPECT_EQ(daly_interval(hours(9), hours(1)), Duration(hours(1)));
  const Duration below = hours(2) - seconds(1);
  // Just below, sqrt(2CM)(1 + 1/3 + 1/9) - C = 2M (13/9) - 2M.
  EXPECT_NEAR(minutes_of(daly_interval(below, hours(1))), 120.0 * 13 / 9 - 120, 0.1);
  // Far below, Young's sqrt(2CM) - C with a correction of a third of C.
  const double young = std::sqrt(2.0 * 1 * 1e6) - 1;
  EXPECT_NEAR(static_cast<double>(daly_interval(seconds(1), seconds(1'000'000)).count()) / 1e6, young + 1.0 / 3, 0.2);
}

TEST(DalyInterval, IsTheBestOfItsNeighbours) {
  for (const auto save : {seconds(5), seconds(60), seconds(300)}) {
    for (const auto mean : {hours(2), hours(10), hours(100)}) {
      const Duration best = daly_interval(save, mean);
      // First-order waste has its minimum near it: 30 % more or less is worse.
      const auto waste = [&](double factor) {
        return expected_waste(save, Duration(static_cast<std::int64_t>(factor * static_cast<double>(best.count()))),
                              mean, Duration{0});
      };
      EXPECT_LT(waste(1), waste(1.4));
      EXPECT_LT(waste(1), waste(0.6));
    }
  }
}

TEST(ExpectedLoss, IsHalfAnIntervalWithoutNoticesAndNothingWithReliableOnes) {
  EXPECT_EQ(expected_loss(minutes(10), 0), Duration(minutes(5)));
  EXPECT_EQ(expected_loss(minutes(10), 1), Duration{0});
  EXPECT_EQ(expected_loss(minutes(10), 0.9), Duration(seconds(30)));
}

TEST(HazardRate, StartsWithThePriorAndFollowsTheObservations) {
  EXPECT_EQ(mean_time_of({}), Duration(hours(100)));
  EXPECT_EQ(mean_time_of({0, hours(900)}), Duration(hours(1000)));
  EXPECT_EQ(mean_time_of({9, hours(900)}), Duration(hours(100)));
  EXPECT_EQ(mean_time_of({99, hours(900)}), Duration(hours(10)));
}

TEST(HazardRate, OfAGangIsTheSumOfItsNodes) {
  const Duration nodes[] = {hours(100), hours(100), hours(50)};
  EXPECT_EQ(mean_time_of_gang(nodes), Duration(hours(25)));
  EXPECT_EQ(mean_time_of_gang({}), std::nullopt);
}

TEST(SavePays, WhenTheWorkAtRiskIsWorthMoreThanTheSave) {
  EXPECT_TRUE(save_pays(seconds(40), minutes(2), 0.5));
  EXPECT_FALSE(save_pays(seconds(60), minutes(2), 0.5));
  EXPECT_FALSE(save_pays(seconds(40), hours(2), 0));
}

}  // namespace interval_test
}  // namespace qm::autoscaler::checkpoint
