#include "qm/calendar/zone.hpp"

#include <gtest/gtest.h>

namespace qm::calendar {
namespace cron_test {

Instant at(const char* text) { return *from_rfc3339(text); }
Cron cron(const char* line) { return *Cron::parse(line); }
Cron robfig(const char* line) { return *Cron::parse(line, CronDialect::kRobfig); }
std::int64_t minute_of(const char* text) { return micros(at(text)) / 60'000'000; }

TEST(Cron, ParsesCrontabLine) {
  struct Case {
    const char *line, *time;
    bool matches;
  };
  for (const auto& [line, time, matches] : {
           Case{"* * * * *", "2026-11-22T15:07:00Z", true},
           Case{"30 22 * * 1-5", "2026-11-20T22:30:00Z", true},  // a Friday
           Case{"30 22 * * 1-5", "2026-11-21T22:30:00Z", false},
           Case{"30 22 * * 1-5", "2026-11-20T22:31:00Z", false},
           Case{"*/15 9-17 * * *", "2026-11-20T17:45:00Z", true},
           Case{"*/15 9-17 * * *", "2026-11-20T18:00:00Z", false},
           Case{"5/20 * * * *", "2026-11-20T18:45:00Z", true},
           Case{"0 0 1,15 * 1", "2026-11-15T00:00:00Z", true},  // a Sunday, by its date
           Case{"0 0 1,15 * 1", "2026-11-16T00:00:00Z", true},  // a Monday
           Case{"0 0 1,15 * 1", "2026-11-17T00:00:00Z", false},
           Case{"0 0 * * 7", "2026-11-22T00:00:00Z", true},  // Sunday by its other number
           Case{"0 0 29 2 *", "2028-02-29T00:00:00Z", true},
           Case{"0 0 * 3 *", "2028-02-29T00:00:00Z", false},
       }) {
    EXPECT_EQ(cron(line).matches(micros(at(time)) / 60'000'000), matches) << line << " " << time;
  }
}

TEST(Cron, ErrorNamesInvalidPart) {
  for (const auto& [line, part] : std::initializer_list<std::pair<const char*, const char*>>{
           {"60 * * * *", "\"60\" is not a valid minute"},
           {"* 5-3 * * *", "\"5-3\" is not a valid hour"},
           {"* * 0 * *", "\"0\" is not a valid day of the month"},
           {"* * * x *", "\"x\" is not a valid month"},
           {"* * * * 1,9", "\"1,9\" is not a valid day of the week"},
           {"*/0 * * * *", "\"*/0\" is not a valid minute"},
           {"* * * *", "\"\" is not a valid day of the week"},
           {"* * * * * *", "more than the five fields"},
       }) {
    const auto parsed = Cron::parse(line);
    ASSERT_FALSE(parsed) << line;
    EXPECT_EQ(parsed.error().code, Code::kInvalid);
    EXPECT_NE(parsed.error().message.find(part), std::string::npos) << parsed.error().message;
  }
}

TEST(Cron, SearchesUntilNext29thOfFebruaryAndNoFurther) {
  const auto leap = cron("0 0 29 2 *"), never = cron("0 0 31 2 *");
  const auto minute = [](const char* time) { return micros(at(time)) / 60'000'000; };
  EXPECT_EQ(leap.after(minute("2096-03-01T00:00:00Z")), minute("2104-02-29T00:00:00Z"));  // 2100 is not a leap year
  EXPECT_EQ(leap.at_or_before(minute("2104-02-28T00:00:00Z")), minute("2096-02-29T00:00:00Z"));
  EXPECT_EQ(never.after(0), std::nullopt);
  EXPECT_EQ(never.at_or_before(0), std::nullopt);
  EXPECT_EQ(cron("59 23 31 12 *").at_or_before(0), -1);  // before 1970
}

TEST(Cron, ReadsNamesAndMacros) {
  EXPECT_EQ(cron("0 8 * jan-MAR mon-fri"), cron("0 8 * 1-3 1-5"));
  EXPECT_EQ(cron("0 8 * * SUN,Sat"), cron("0 8 * * 0,6"));
  EXPECT_EQ(cron("@yearly"), cron("0 0 1 1 *"));
  EXPECT_EQ(cron("@annually"), cron("@yearly"));
  EXPECT_EQ(cron("@monthly"), cron("0 0 1 * *"));
  EXPECT_EQ(cron("@weekly"), cron("0 0 * * 0"));
  EXPECT_EQ(cron("@midnight"), cron("@daily"));
  EXPECT_EQ(cron("@daily"), cron("0 0 * * *"));
  EXPECT_EQ(cron("@hourly"), cron("0 * * * *"));
  for (const char* wrong : {"@every 1h", "@reboot", "0 0 * mon *", "0 0 * * jan", "0 0 mon * *", "0 0 * * mo"}) {
    EXPECT_FALSE(Cron::parse(wrong)) << wrong;
  }
}

TEST(Cron, DialectsDifferInSundayAndInAStarWithAStep) {
  EXPECT_FALSE(Cron::parse("0 0 * * 7", CronDialect::kRobfig));
  EXPECT_FALSE(Cron::parse("0 0 ? * *"));
  EXPECT_EQ(robfig("0 0 ? * MON"), robfig("0 0 * * MON"));
  // crontab(5): the days stay unrestricted, so it is every second day that is a Monday. robfig/cron: either.
  const auto tuesday_the_third = minute_of("2026-03-03T09:00:00Z");
  EXPECT_FALSE(cron("0 9 */2 * MON").matches(tuesday_the_third));
  EXPECT_TRUE(robfig("0 9 */2 * MON").matches(tuesday_the_third));
  EXPECT_FALSE(robfig("0 9 */1 * MON").matches(tuesday_the_third));
}

struct NextCase {
  const char *zone, *line, *after, *next;
};

void expect_next(const NextCase& c) {
  const auto zone = Zone::load(c.zone);
  ASSERT_TRUE(zone) << zone.error().to_string();
  const auto next = calendar::next(robfig(c.line), at(c.after), *zone);
  EXPECT_EQ(next ? to_rfc3339(*next) : "never", c.next) << c.zone << " " << c.line << " after " << c.after;
}

TEST(CronNext, FollowsTheZone) {
  for (const auto& c : {
           NextCase{"", "*/15 * * * *", "2026-03-02T10:00:00Z", "2026-03-02T10:15:00Z"},
           NextCase{"UTC", "0 10 * * *", "2026-03-02T09:59:59Z", "2026-03-02T10:00:00Z"},
           NextCase{"UTC", "0 10 * * *", "2026-03-02T10:00:00Z", "2026-03-03T10:00:00Z"},
           NextCase{"Asia/Kolkata", "0 6 * * *", "2026-03-02T00:00:00Z", "2026-03-02T00:30:00Z"},
           NextCase{"America/New_York", "0 9 * * 1", "2026-01-01T00:00:00Z", "2026-01-05T14:00:00Z"},
           NextCase{"Etc/UTC", "0 0 29 2 *", "2026-03-02T00:00:00Z", "2028-02-29T00:00:00Z"},
           NextCase{"Etc/UTC", "0 0 30 2 *", "2026-03-02T00:00:00Z", "never"},
           NextCase{"Etc/UTC", "0 0 29 2 *", "2096-03-02T00:00:00Z", "never"},  // eight years: beyond the limit
       }) {
    expect_next(c);
  }
}

// S-227: the days on which the offset changes.
TEST(CronNext, SkipsAnHourThatTheZoneSkipsAndRepeatsOneThatItRepeats) {
  for (const auto& c : {
           // 02:00 to 03:00 does not exist on 29 March.
           NextCase{"Europe/Berlin", "30 2 * * *", "2026-03-28T02:00:00Z", "2026-03-30T00:30:00Z"},
           NextCase{"Europe/Berlin", "30 3 * * *", "2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z"},
           NextCase{"Europe/Berlin", "*/30 * * * *", "2026-03-29T00:45:00Z", "2026-03-29T01:00:00Z"},
           // 02:00 to 03:00 occurs twice on 25 October.
           NextCase{"Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
           NextCase{"Europe/Berlin", "30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
           NextCase{"Europe/Berlin", "30 2 * * *", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"},
           NextCase{"America/New_York", "30 2 * * *", "2026-03-07T12:00:00Z", "2026-03-09T06:30:00Z"},
           NextCase{"Europe/London", "30 1 * * *", "2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z"},
           // Midnight does not exist on 6 September.
           NextCase{"America/Santiago", "0 0 * * SUN", "2026-09-01T00:00:00Z", "2026-09-13T03:00:00Z"},
           NextCase{"America/Santiago", "0 6 * * SUN", "2026-09-01T00:00:00Z", "2026-09-06T09:00:00Z"},
       }) {
    expect_next(c);
  }
}

TEST(Zone, IsRefusedByItsName) {
  for (const char* wrong : {"Europe/Bonn", "/etc/localtime", "Fixed/UTC+01:00:00", "../UTC", "CET DST"}) {
    const auto zone = Zone::load(wrong);
    ASSERT_FALSE(zone) << wrong;
    EXPECT_NE(zone.error().message.find(wrong), std::string::npos);
    EXPECT_NE(zone.error().remedy.find("tzdata"), std::string::npos);
  }
  EXPECT_EQ(Zone::load("Asia/Kathmandu")->offset_at(0), 5 * 3600 + 1800);
  EXPECT_EQ(Zone::load("Asia/Kathmandu")->offset_at(1'800'000'000), 5 * 3600 + 2700);
}

}  // namespace cron_test
}  // namespace qm::calendar
