#include "qm/admission/forecast/windows.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace qm::admission::forecast {
namespace windows_test {

using std::chrono::hours;
using std::chrono::minutes;

Instant at(const char* text) { return *from_rfc3339(text); }
Cron cron(const char* line) { return *Cron::parse(line); }
Window window(const char* line, Duration lasts, int offset = 0) {
  return *Window::make(cron(line), lasts, minutes(offset));
}
kueue::Quota quota(std::int64_t nominal) {
  kueue::Quota out;
  out.nominal = nominal;
  return out;
}

TEST(Window, SpansMidnightAndEndOfWeek) {
  // Saturday from 22:00 to 06:00, in the time zone UTC+2.
  const auto night = *Window::weekly(1U << 6U, hours(22), hours(6), hours(2));
  EXPECT_FALSE(night.open(at("2026-11-21T19:59:59Z")));
  EXPECT_TRUE(night.open(at("2026-11-21T20:00:00Z")));
  EXPECT_TRUE(night.open(at("2026-11-22T03:59:59Z")));
  EXPECT_FALSE(night.open(at("2026-11-22T04:00:00Z")));
  EXPECT_EQ(night.changes_after(at("2026-11-22T04:00:00Z")), at("2026-11-28T20:00:00Z"));
  EXPECT_EQ(night.changes_after(at("2026-11-21T20:00:00Z")), at("2026-11-22T04:00:00Z"));
}

TEST(Window, AdjacentIntervalsAreMerged) {
  const auto days = *Window::weekly(0x3e, hours(0), hours(24), minutes(0));  // whole days from Monday to Friday
  EXPECT_EQ(days.changes_after(at("2026-11-23T00:00:00Z")), at("2026-11-28T00:00:00Z"));
  EXPECT_EQ(days.changes_after(at("2026-11-22T12:00:00Z")), at("2026-11-23T00:00:00Z"));
}

TEST(Window, MayNeverCloseOrNeverOpen) {
  EXPECT_EQ(window("* * * * *", minutes(1)).changes_after(at("2026-11-22T12:00:00Z")), std::nullopt);
  const auto never = window("0 0 31 2 *", hours(1));
  EXPECT_FALSE(never.open(at("2026-11-22T12:00:00Z")));
  EXPECT_EQ(never.changes_after(at("2026-11-22T12:00:00Z")), std::nullopt);
}

TEST(Window, RefusesInvalidWindows) {
  EXPECT_EQ(Window::make(cron("* * * * *"), Duration::zero(), minutes(0)).error().code, Code::kInvalid);
  EXPECT_FALSE(Window::weekly(0, hours(1), hours(2), minutes(0)));
  EXPECT_FALSE(Window::weekly(128, hours(1), hours(2), minutes(0)));
  EXPECT_FALSE(Window::weekly(1, hours(24), hours(2), minutes(0)));
  EXPECT_FALSE(Window::weekly(1, hours(1), hours(25), minutes(0)));
}

RC_GTEST_PROP(WindowProperty, ChangesExactlyAtStatedTimes, ()) {
  const auto lines = {"0 22 * * 1-5", "*/40 9-17 * * *", "15 3 1 * *", "0 */6 * * 0,3", "59 23 * * *"};
  const auto one = window(*rc::gen::elementOf(std::vector<const char*>(lines)), minutes(*rc::gen::inRange(1, 900)),
                          *rc::gen::inRange(-14 * 60, 14 * 60));
  const Instant from = at("2026-10-01T00:00:00Z") + std::chrono::seconds(*rc::gen::inRange(0, 60 * 86400));
  const auto change = one.changes_after(from);
  RC_ASSERT(change.has_value());
  RC_ASSERT(*change > from);
  RC_ASSERT(one.open(*change) != one.open(*change - Duration(1)));
  for (int i = 0; i < 50; ++i) {
    const Instant between = from + (*change - from) * *rc::gen::inRange(0, 1000) / 1000;
    RC_ASSERT(one.open(between) == one.open(from));
  }
}

TEST(CalendarQuota, FirstOpenWindowApplies) {
  const CalendarQuota of{quota(8),
                         {{window("0 20 * * *", hours(12)), quota(32)}, {window("0 0 * * 0,6", hours(24)), quota(64)}}};
  EXPECT_EQ(of.at(at("2026-11-20T12:00:00Z")).nominal, 8);
  EXPECT_EQ(of.at(at("2026-11-20T20:00:00Z")).nominal, 32);
  EXPECT_EQ(of.at(at("2026-11-21T07:59:59Z")).nominal, 32);  // Saturday too, but the night window has precedence
  EXPECT_EQ(of.at(at("2026-11-21T08:00:00Z")).nominal, 64);
  EXPECT_EQ(of.changes_after(at("2026-11-20T12:00:00Z")), at("2026-11-20T20:00:00Z"));
  // At midnight the weekend window opens behind the night window, which changes nothing.
  EXPECT_EQ(of.changes_after(at("2026-11-20T20:00:00Z")), at("2026-11-21T08:00:00Z"));
}

TEST(CalendarQuota, IsConstantBetweenChanges) {
  EXPECT_EQ((CalendarQuota{quota(8), {}}).changes_after(at("2026-11-20T12:00:00Z")), std::nullopt);
  const CalendarQuota same{quota(8), {{window("0 20 * * *", hours(1)), quota(8)}}};
  EXPECT_EQ(same.changes_after(at("2026-11-20T12:00:00Z")), std::nullopt);
}

}  // namespace windows_test
}  // namespace qm::admission::forecast
