#include "qm/calendar/zone.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>

namespace qm::calendar {
namespace cron_prop_test {

constexpr std::int64_t kMinute = 60, kDay = 86'400;

/// Zones that shift by whole hours, and not at midnight.
Zone any_zone() {
  return *Zone::load(*rc::gen::element<std::string>("UTC", "Europe/Berlin", "Europe/London", "America/New_York",
                                                    "America/St_Johns", "Australia/Adelaide", "Asia/Kolkata"));
}

/// Within two days of a change of the offset, or anywhere in the years 2024 to 2031.
std::int64_t any_start(const Zone& zone) {
  const auto from = *rc::gen::inRange<std::int64_t>(1'704'067'200, 1'924'992'000);
  if (*rc::gen::inRange(0, 4) == 0) return from;
  for (auto t = from; t < from + 366 * kDay; t += kDay) {
    if (zone.offset_at(t) != zone.offset_at(t + kDay)) return t + *rc::gen::inRange<std::int64_t>(-kDay, kDay);
  }
  return from;
}

std::string any_field(int low, int high, bool mostly_open) {
  const auto number = [&] { return *rc::gen::inRange(low, high + 1); };
  switch (*rc::gen::inRange(0, mostly_open ? 12 : 5)) {
    case 0:
      return std::to_string(number());
    case 1:
      return fmt::format("*/{}", *rc::gen::inRange(1, high));
    case 2: {
      const int first = number();
      return fmt::format("{}-{}", first, *rc::gen::inRange(first, high + 1));
    }
    case 3:
      return fmt::format("{},{}", number(), number());
    default:
      return "*";
  }
}

std::string any_line() {
  return fmt::format("{} {} {} {} {}", any_field(0, 59, false), any_field(0, 23, false), any_field(1, 28, true),
                     any_field(1, 12, true), any_field(0, 6, true));
}

RC_GTEST_PROP(CronNextProperty, IsTheFirstMinuteThatMatchesTheWallClock, ()) {
  const auto zone = any_zone();
  const auto cron = *Cron::parse(any_line(), CronDialect::kRobfig);
  const auto start = any_start(zone);
  const auto next = calendar::next(cron, from_micros(start * 1'000'000), zone);
  const auto last = next ? micros(*next) / 1'000'000 : start + 5 * 365 * kDay;
  RC_ASSERT(last > start);
  const auto matches = [&](std::int64_t t) { return cron.matches((t + zone.offset_at(t)) / kMinute); };
  if (next) RC_ASSERT(last % kMinute == 0 && matches(last));
  const auto end = std::min(last, start + 4 * kDay);
  for (auto t = (start / kMinute + 1) * kMinute; t < end; t += kMinute) RC_ASSERT(!matches(t));
}

RC_GTEST_PROP(CronNextProperty, IncreasesStrictlyInEveryZone, ()) {
  const auto zone = *Zone::load(
      *rc::gen::element<std::string>("Australia/Lord_Howe", "America/Santiago", "Asia/Beirut", "Europe/Berlin"));
  const auto cron = *Cron::parse(any_line(), CronDialect::kRobfig);
  Instant now = from_micros(any_start(zone) * 1'000'000);
  for (int i = 0; i < 50; ++i) {
    const auto next = calendar::next(cron, now, zone);
    if (!next) return;
    RC_ASSERT(*next > now);
    now = *next;
  }
}

RC_GTEST_PROP(CronProperty, AfterIsNextInUtc, ()) {
  const auto zone = *Zone::load("UTC");
  const auto cron = *Cron::parse(any_line(), CronDialect::kRobfig);
  const auto minute = *rc::gen::inRange<std::int64_t>(28'401'120, 32'083'200);
  const auto next = calendar::next(cron, from_micros(minute * 60'000'000), zone);
  if (next) RC_ASSERT(cron.after(minute) == micros(*next) / 60'000'000);
}

}  // namespace cron_prop_test
}  // namespace qm::calendar
