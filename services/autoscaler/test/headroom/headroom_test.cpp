// Levels of free nodes from small histories that can be checked by hand.
#include "qm/autoscaler/headroom/headroom.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::autoscaler::headroom {
namespace headroom_test {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr Instant kStart = from_micros(1'800'000'000'000'000);
const std::size_t kIdle = band_of(0, Duration::max());

Shape shape(std::vector<Change> changes, std::int64_t usd = 1) {
  return {"g", usd * 1'000'000'000, minutes(4), 1000, std::move(changes)};
}
Problem day(std::vector<Shape> shapes, std::int64_t quantile_ppm) {
  return {seconds(60), quantile_ppm, kStart, kStart + hours(24), std::move(shapes)};
}

// The lead time is 3 min: what came within it and was not released is needed at once.
TEST(Needs, AreTheNodesTakenWithinOneLeadTime) {
  const auto needs = needs_of(shape({{kStart, 1},
                                     {kStart + seconds(60), 2},
                                     {kStart + seconds(90), -2},
                                     {kStart + seconds(100), 1},
                                     {kStart + seconds(240), 1}}),
                              seconds(60));
  const std::vector<Need> expected{
      {kStart, 1}, {kStart + seconds(60), 3}, {kStart + seconds(100), 2}, {kStart + seconds(240), 1 + 1 - 0}};
  ASSERT_EQ(needs.size(), expected.size());
  EXPECT_EQ(needs[0], expected[0]);
  EXPECT_EQ(needs[1], expected[1]);
  EXPECT_EQ(needs[2], expected[2]);
  EXPECT_EQ(needs[3].nodes, 2) << "the arrivals of 100 s and 240 s; the release before both does not help later ones";
}

TEST(Needs, AReleaseWithoutMissingNodesDoesNotHelpLater) {
  const auto needs = needs_of(shape({{kStart, -5}, {kStart + seconds(10), 3}}), seconds(60));
  ASSERT_EQ(needs.size(), 1U);
  EXPECT_EQ(needs[0].nodes, 3);
}

TEST(Needs, ABootShorterThanTheWaitNeedsOnlyTheArrivalItself) {
  auto one = shape({{kStart, 4}, {kStart + seconds(1), 2}});
  one.boot = seconds(30);
  EXPECT_EQ(needs_of(one, seconds(60))[1].nodes, 2);
}

TEST(Bands, DoubleInWidthAndAreDividedByTheTimeSinceTheLastArrival) {
  EXPECT_EQ(band_of(0, minutes(0)), 0U);
  EXPECT_EQ(band_of(1, minutes(29)), 1U);
  EXPECT_EQ(band_of(3, minutes(0)), 2U);
  EXPECT_EQ(band_of(4, minutes(0)), 3U);
  EXPECT_EQ(band_of(4, minutes(30)), kBurstBands + 3);
  EXPECT_EQ(band_of(4, hours(2)), 2 * kBurstBands + 3);
  EXPECT_EQ(band_of(std::int64_t{1} << 62, Duration::max()), kBands - 1);
}

TEST(Bands, TheQuietTimeIsSinceTheLastArrival) {
  const std::vector<Need> needs{{kStart, 5}, {kStart + hours(1), 1}};
  EXPECT_EQ(quiet_time(needs, kStart - seconds(1)), Duration::max());
  EXPECT_EQ(quiet_time(needs, kStart), seconds(0));
  EXPECT_EQ(quiet_time(needs, kStart + hours(3)), hours(2));
}

// The arrival that ends a quiet time takes one of the nodes that were kept in it, and the rest of its burst the others.
TEST(Bands, TheLevelOfOneLeadTimeAgoHolds) {
  Levels levels{};
  levels[band_of(1, minutes(30))] = 7;
  levels[band_of(1, minutes(0))] = 2;
  const std::vector<Need> needs{{kStart, 1}, {kStart + hours(1), 1}};
  EXPECT_EQ(level_at(levels, needs, kStart + minutes(59), minutes(3)), 7);
  EXPECT_EQ(level_at(levels, needs, kStart + minutes(62), minutes(3)), 7);
  EXPECT_EQ(level_at(levels, needs, kStart + minutes(63), minutes(3)), 2);
}

// A second node is needed 20 minutes after each arrival, and none for hours afterwards: nodes are kept for half an hour.
TEST(Headroom, NodesAreKeptWhileArrivalsAreRecent) {
  std::vector<Change> changes;
  for (int pair = 0; pair < 4; ++pair) {
    changes.push_back({kStart + hours(5) * pair + minutes(10), 1});
    changes.push_back({kStart + hours(5) * pair + minutes(30), 1});
  }
  const auto result = plan(day({shape(changes)}, 500'000));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->levels[0][band_of(1, minutes(0))], 1);
  EXPECT_EQ(result->levels[0][band_of(1, minutes(30))], 0);
  EXPECT_EQ(result->covered, 4);
  EXPECT_NEAR(result->usd, 4 * 50.0 / 60, 0.01) << "from each first arrival until 30 min after the second";
}

// Nine lone arrivals, 5 h apart: no burst is recent, so the band without bursts decides; the tenth takes 50 nodes and is
// not worth it.
TEST(Headroom, TheMostExpensiveArrivalsAreThoseThatTheQuantileAllowsToMiss) {
  std::vector<Change> changes;
  for (int i = 0; i < 10; ++i) changes.push_back({kStart + minutes(10) + hours(5) * i, i == 5 ? 50 : 1});
  Problem problem = day({shape(changes)}, 900'000);
  problem.until = kStart + hours(50);
  auto result = plan(problem);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->levels[0][kIdle], 1);
  EXPECT_EQ(result->arrivals, 10);
  EXPECT_EQ(result->covered, 9);
  EXPECT_TRUE(still_holds(problem, *result));
  problem.quantile_ppm = 950'000;
  result = plan(problem);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->levels[0][kIdle], 50);
  EXPECT_EQ(result->covered, 10);
}

// After a burst the next one comes within the hour; on other days there is none: nodes are kept after bursts alone.
TEST(Headroom, NodesAreKeptWhereBurstsWereRecent) {
  std::vector<Change> changes;
  for (int burst = 0; burst < 10; ++burst) {
    for (int node = 0; node < 6; ++node) changes.push_back({kStart + minutes(30 + 20 * burst), 1});
  }
  Problem problem = day({shape(changes)}, 850'000);
  const auto result = plan(problem);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->levels[0][kIdle], 0) << "20 hours without a burst";
  EXPECT_EQ(result->levels[0][band_of(6, minutes(0))], 6);
  EXPECT_EQ(result->covered, 54);
  EXPECT_NEAR(result->usd, 6 * 3.5, 0.01) << "6 nodes from the first burst until 30 min after the last";
}

TEST(Headroom, TheCheaperShapeIsCoveredFirst) {
  std::vector<Change> changes;
  for (int i = 0; i < 4; ++i) changes.push_back({kStart + hours(5) * i + minutes(10), 1});
  const Problem problem = day({shape(changes, 8), shape(changes, 1)}, 500'000);
  const auto result = plan(problem);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->levels[0], Levels{});
  EXPECT_EQ(result->levels[1][kIdle], 1);
}

TEST(Headroom, NeverMoreThanTheLimit) {
  auto bounded = shape({{kStart + hours(5), 7}, {kStart + hours(10), 2}});
  bounded.most = 3;
  const auto result = plan(day({bounded}, 990'000));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->levels[0][kIdle], 2);
  EXPECT_EQ(result->covered, 1);
}

TEST(Headroom, AWrongPlanIsFound) {
  const Problem problem = day({shape({{kStart + hours(5), 2}})}, 500'000);
  Plan wrong = *plan(problem);
  ASSERT_TRUE(still_holds(problem, wrong));
  wrong.levels[0][kIdle] = 1;
  EXPECT_THAT(still_holds(problem, wrong).error().message, HasSubstr("cover 0 of 1 arrivals"));
  wrong = *plan(problem);
  wrong.usd += 1;
  EXPECT_THAT(still_holds(problem, wrong).error().message, HasSubstr("the plan states"));
  wrong = *plan(problem);
  wrong.levels[0][3] = 5000;
  EXPECT_THAT(still_holds(problem, wrong).error().message, HasSubstr("1000 are allowed"));
}

TEST(Headroom, BadInputNamesTheField) {
  const auto field = [](Problem problem) { return plan(problem).error().field; };
  EXPECT_EQ(field(day({}, 1'000'000)), "quantile_ppm");
  EXPECT_EQ(field(day({shape({}, 0)}, 900'000)), "shapes[g].nano_usd_hour");
  EXPECT_EQ(field(day({shape({{kStart + hours(1), 1}, {kStart, 1}})}, 900'000)), "shapes[g].changes");
  auto none = shape({});
  none.boot = {};
  EXPECT_EQ(field(day({none}, 900'000)), "shapes[g].boot");
  EXPECT_TRUE(plan(day({}, 900'000)));
}

TEST(Target, RisesAfterMissesAndFallsAfterASurplus) {
  EXPECT_GT(next_target_ppm(950'000, 950'000, {1000, 900}, 15'000), 950'000);
  EXPECT_LT(next_target_ppm(950'000, 950'000, {1000, 1000}, 15'000), 950'000);
  EXPECT_EQ(next_target_ppm(940'000, 950'000, {}, 15'000), 940'000);
  EXPECT_EQ(next_target_ppm(950'000, 950'000, {10'000, 0}, 10'000), 975'000) << "at most half the way to 1";
  EXPECT_EQ(next_target_ppm(610'000, 950'000, {10'000, 10'000}, 1'000), 600'000);
}

}  // namespace headroom_test
}  // namespace qm::autoscaler::headroom
