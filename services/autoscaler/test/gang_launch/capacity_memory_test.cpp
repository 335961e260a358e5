// What refusals teach about an offering.
#include "qm/autoscaler/gang_launch/capacity_memory.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler {
namespace capacity_memory_test {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Instant kStart = from_micros(1'800'000'000'000'000);
const MemoryOptions kOptions;

/// The hold after a refusal at `at`, in seconds.
std::int64_t refuse(Outage& row, Duration at) {
  row = after_refusal(row, kStart + at, kOptions);
  return (row.until - kStart - at) / seconds(1);
}

TEST(CapacityMemory, StartsWithThreeMinutesAsKarpenter) {
  Outage row;
  EXPECT_EQ(refuse(row, seconds(0)), 180);
  EXPECT_EQ(row.since, kStart);
  const Outage before = row;
  EXPECT_EQ(refuse(row, seconds(0)), 180);
  EXPECT_EQ(row, before) << "the members of a gang are refused at the same time";
}

TEST(CapacityMemory, AnOutageThatContinuesIsHeldLonger) {
  Outage row;
  Duration at{};
  std::vector<std::int64_t> holds;
  for (int i = 0; i < 9; ++i) {
    holds.push_back(refuse(row, at));
    at = row.until - kStart;
  }
  EXPECT_EQ(holds, (std::vector<std::int64_t>{180, 270, 405, 607, 911, 1366, 1800, 1800, 1800}));
}

TEST(CapacityMemory, ShortOutagesAreHeldShorter) {
  Outage row;
  Duration at{};
  std::int64_t hold = 0;
  for (int i = 0; i < 40; ++i) {
    hold = refuse(row, at);
    at = row.until - kStart + seconds(1);
    row = after_launch(row, kStart + at, kOptions);
    EXPECT_FALSE(row.since);
    EXPECT_LE(row.until, kStart + at) << "it is not held after a launch";
    at += minutes(1);
  }
  EXPECT_LT(hold, 100);
  EXPECT_GE(hold, 30);
}

TEST(CapacityMemory, LongOutagesAreLearnedForTheNextOne) {
  Outage row;
  refuse(row, seconds(0));
  for (int i = 1; i <= 6; ++i) refuse(row, i * minutes(10));
  row = after_launch(row, kStart + minutes(61), kOptions);
  const auto hold = refuse(row, minutes(70));
  EXPECT_GT(hold, 600) << "an hour, once, and two outages of three minutes: about twenty minutes";
  // Half of it is forgotten in six hours, all in a few days.
  row = after_launch(row, kStart + minutes(71), kOptions);
  EXPECT_LT(refuse(row, minutes(71) + hours(6)), hold);
  row = after_launch(row, kStart + minutes(72) + hours(6), kOptions);
  EXPECT_NEAR(static_cast<double>(refuse(row, hours(500))), 180, 10);
}

TEST(CapacityMemory, ALongTimeWithoutARequestIsNoOutage) {
  Outage row;
  refuse(row, seconds(0));
  row = after_launch(row, kStart + hours(5), kOptions);
  EXPECT_LE(refuse(row, hours(5)), 200);
}

TEST(CapacityMemory, ARefusalForAnotherReasonTeachesNothing) {
  Outage row = after_hold({}, kStart, minutes(3));
  EXPECT_EQ(row.until, kStart + minutes(3));
  EXPECT_FALSE(row.since);
  EXPECT_EQ(still_out_milli(row, kStart, kOptions), 0);
  EXPECT_EQ(refuse(row, minutes(4)), 180);
}

TEST(CapacityMemory, TheProbabilityOfARefusalHalvesWithTheMedian) {
  Outage row;
  refuse(row, seconds(0));
  EXPECT_EQ(still_out_milli(row, kStart, kOptions), 1000);
  EXPECT_NEAR(static_cast<double>(still_out_milli(row, kStart + seconds(125), kOptions)), 500, 3);
  EXPECT_NEAR(static_cast<double>(still_out_milli(row, kStart + seconds(180), kOptions)), 368, 25) << "1/e";
  EXPECT_EQ(still_out_milli(row, kStart + hours(2), kOptions), 0);
}

TEST(CapacityMemory, IsForgottenAfterADay) {
  Outage row;
  refuse(row, seconds(0));
  EXPECT_FALSE(is_forgotten(row, kStart + hours(23), kOptions));
  EXPECT_TRUE(is_forgotten(row, kStart + hours(24), kOptions));
}

}  // namespace capacity_memory_test
}  // namespace qm::autoscaler
