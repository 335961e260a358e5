#include "qm/placement/relayout.hpp"

#include <gtest/gtest.h>

namespace qm::placement::relayout {
namespace weekly_test {

using std::chrono::hours;
using std::chrono::minutes;

const Instant kMonday = *from_rfc3339("2026-11-23T00:00:00Z");

std::string next(const char* windows, Duration after_monday) {
  std::vector<Weekly> all;
  for (std::string_view rest = windows; !rest.empty();) {
    const auto end = rest.find(';');
    const auto one = weekly_of(rest.substr(0, end));
    EXPECT_TRUE(one) << windows;
    if (one) all.push_back(*one);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  const auto [from, until] = next_window(all, kMonday + after_monday);
  return until == Instant{} ? "none" : to_rfc3339(from) + " " + to_rfc3339(until);
}

TEST(Weekly, CurrentOrNextWindow) {
  EXPECT_EQ(next("Mon 20:00-22:00", hours(1)), "2026-11-23T20:00:00Z 2026-11-23T22:00:00Z");
  EXPECT_EQ(next("Mon 20:00-22:00", hours(21)), "2026-11-23T20:00:00Z 2026-11-23T22:00:00Z") << "it is open";
  EXPECT_EQ(next("Mon 20:00-22:00", hours(22)), "2026-11-30T20:00:00Z 2026-11-30T22:00:00Z") << "it has just closed";
  EXPECT_EQ(next("Sat,Sun 02:00-06:00", hours(1)), "2026-11-28T02:00:00Z 2026-11-28T06:00:00Z");
  EXPECT_EQ(next("Sun 23:00-01:00", minutes(30)), "2026-11-22T23:00:00Z 2026-11-23T01:00:00Z") << "past midnight";
  EXPECT_EQ(next("02:00-03:00", hours(5)), "2026-11-24T02:00:00Z 2026-11-24T03:00:00Z") << "every day";
  EXPECT_EQ(next("00:00-00:00", hours(5)), "2026-11-23T00:00:00Z 2026-11-24T00:00:00Z") << "all day";
  EXPECT_EQ(next("Fri 01:00-02:00;Wed 01:00-02:00", hours(5)), "2026-11-25T01:00:00Z 2026-11-25T02:00:00Z");
  EXPECT_EQ(next("", hours(5)), "none");
}

TEST(Weekly, InvalidWindowIsRefused) {
  for (const char* text : {"", "Mon", "Mon 20:00", "Monday 20:00-22:00", "Mon 24:00-25:00", "Mon 2:00-3:00",
                           "Mon 02:60-03:00", "Mon, 02:00-03:00", "Mon 02:00-03:00-04:00"}) {
    EXPECT_FALSE(weekly_of(text)) << text;
  }
}

}  // namespace weekly_test
}  // namespace qm::placement::relayout
