// Schedules from histories of hourly needs.
#include "qm/autoscaler/replicas/schedule.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace qm::autoscaler::replicas {
namespace schedule_test {

std::vector<HourlyNeed> history(int days, const std::function<std::int32_t(int day, int hour)>& need) {
  std::vector<HourlyNeed> out;
  const Instant begin = *from_rfc3339("2026-10-01T00:00:00Z");
  for (int hour = 0; hour < days * 24; ++hour)
    out.push_back({begin + std::chrono::hours(hour), need(hour / 24, hour % 24)});
  return out;
}

/// 30 days: 8 replicas from 9 to 17, mostly 2 at night, and 4 in one hour of some nights.
std::vector<HourlyNeed> office() {
  return history(30, [](int day, int hour) {
    if (hour >= 9 && hour < 17) return 8;
    return day % 5 == 0 && hour == 22 ? 4 : 2;
  });
}

ScheduleTerms terms(const char* usd, std::vector<std::int32_t> others = {}) {
  return {*Money::parse_usd(usd), 1, std::move(others)};
}

// S-228: four replicas fewer for 16 hours at 40 dollars in 30 days. S-229: the text has 4 replicas at night, the manifest 2.
TEST(Schedules, QuietNightsLeadToASchedule) {
  const auto out = propose_schedule(office(), terms("40", {2}));
  ASSERT_TRUE(out) << out.error().to_string();
  EXPECT_EQ(out->peak, 8);
  EXPECT_EQ(out->days, 30);
  EXPECT_EQ(out->off_peak.replicas, 4);
  EXPECT_EQ(out->off_peak.from, 17);
  EXPECT_EQ(out->off_peak.until, 9);
  EXPECT_EQ(out->off_peak.hours, 16);
  EXPECT_EQ(out->off_peak.saving.to_usd(2), "76800.00");
  EXPECT_EQ(out->off_peak.short_hours, 0);
  ASSERT_EQ(out->smaller.size(), 1U);
  EXPECT_EQ(out->smaller[0].saving.to_usd(2), "115200.00");
  EXPECT_EQ(out->smaller[0].short_hours, 6) << "the nights that needed four";
}

TEST(Schedules, TheWindowWithTheLargestSavingCounts) {
  // One busy hour at night splits it: a shorter window with a smaller size, or a longer one.
  const auto split = [](int spike) {
    return history(14, [spike](int, int hour) { return hour >= 8 && hour < 18 ? 10 : hour == 20 ? spike : 1; });
  };
  const auto low = propose_schedule(split(2), terms("1"));
  EXPECT_EQ(low->off_peak.hours, 14) << "14 x 8 is more than 11 x 9";
  EXPECT_EQ(low->off_peak.replicas, 2);
  const auto high = propose_schedule(split(8), terms("1"));
  EXPECT_EQ(high->off_peak.from, 21);
  EXPECT_EQ(high->off_peak.hours, 11);
  EXPECT_EQ(high->off_peak.replicas, 1);
}

TEST(Schedules, WithoutQuietHoursOrEnoughDaysThereIsNone) {
  const auto flat = propose_schedule(history(30, [](int, int) { return 8; }), terms("40"));
  ASSERT_FALSE(flat);
  EXPECT_EQ(flat.error().code, Code::kNotFound);
  const auto few = propose_schedule(history(13, [](int, int hour) { return hour == 9 ? 8 : 1; }), terms("40"));
  ASSERT_FALSE(few);
  EXPECT_NE(few.error().to_string().find("13 days"), std::string::npos) << few.error().to_string();
  EXPECT_FALSE(propose_schedule(office(), terms("40", {8})));
  EXPECT_FALSE(propose_schedule({}, terms("40")));
}

TEST(Schedules, TheMinimumIsKept) {
  auto at_least = terms("40");
  at_least.least = 5;
  EXPECT_EQ(propose_schedule(office(), at_least)->off_peak.replicas, 5);
}

}  // namespace schedule_test
}  // namespace qm::autoscaler::replicas
