// The calendar of reservations and capacity blocks.
#include "qm/autoscaler/gang_launch/reservations.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace qm::autoscaler {
namespace reservations_test {

using std::chrono::hours;
using std::chrono::minutes;
using ::testing::HasSubstr;

constexpr Instant kStart = from_micros(1'800'000'000'000'000);

Reservation block(const std::string& id, Duration begins, Duration ends, std::int64_t count) {
  return {id, "p5.48xlarge", "z1", true, kStart + begins, kStart + ends, count};
}
ReservationRequest request(std::int64_t count, std::optional<Duration> duration, Duration from = {}) {
  return {"p5.48xlarge", "z1", count, kStart + from, duration};
}
/// The id, or the reason for none.
std::string chosen(const std::vector<Reservation>& calendar, const ReservationRequest& request,
                   const std::vector<Booking>& bookings = {}) {
  const auto found = reservation_for(calendar, bookings, request);
  return found ? (*found)->id : found.error().message;
}

TEST(Reservations, ABlockIsUsedUntilFortyMinutesBeforeItsEnd) {
  const std::vector<Reservation> calendar{block("cb", {}, hours(24), 4)};
  EXPECT_EQ(chosen(calendar, request(4, hours(23))), "cb");
  EXPECT_EQ(chosen(calendar, request(4, hours(23) + minutes(20))), "cb");
  EXPECT_THAT(chosen(calendar, request(4, hours(23) + minutes(21))),
              HasSubstr("may be used until 2027-01-16T07:20:00Z, 40 min before its end, and 1401 min are needed"));
  EXPECT_EQ(chosen(calendar, request(4, std::nullopt, hours(23))), "cb") << "its duration is not known";
  EXPECT_THAT(chosen(calendar, request(4, std::nullopt, hours(23) + minutes(20))), HasSubstr("40 min before its end"));
}

TEST(Reservations, OneThatBeginsLaterOrIsInUseIsNotUsed) {
  EXPECT_THAT(chosen({block("cb", hours(1), hours(24), 4)}, request(4, hours(2))), HasSubstr("cb begins at"));
  const std::vector<Reservation> calendar{block("cb", {}, hours(24), 4)};
  const std::vector<Booking> bookings{{"cb", 1, kStart, kStart + hours(3)}, {"cb", 2, kStart + hours(2), std::nullopt}};
  EXPECT_EQ(chosen(calendar, request(3, hours(2)), bookings), "cb");
  EXPECT_EQ(chosen(calendar, request(3, hours(3)), bookings), "reservation cb has 1 free instances, and 3 are needed");
  EXPECT_EQ(chosen(calendar, request(2, hours(1), hours(4)), bookings), "cb");
  EXPECT_EQ(chosen({}, request(1, hours(1))), "no reservation of this type and zone is active");
}

TEST(Reservations, WithoutAnEndFirstThenTheOneThatEndsFirst) {
  std::vector<Reservation> calendar{block("long", {}, hours(200), 8), block("short", {}, hours(20), 8)};
  EXPECT_EQ(chosen(calendar, request(4, hours(10))), "short");
  EXPECT_EQ(chosen(calendar, request(4, hours(30))), "long");
  calendar.push_back({"odcr", "p5.48xlarge", "z1", false, kStart, std::nullopt, 4});
  EXPECT_EQ(chosen(calendar, request(4, hours(10))), "odcr");
  EXPECT_EQ(chosen(calendar, request(8, hours(10))), "short");
  EXPECT_EQ(chosen(calendar, {"p5.48xlarge", "z2", 1, kStart, {}}), "no reservation of this type and zone is active");
}

// Gangs that are booked one after the other: no reservation has more than its instances at any time, and none after
// its wind-down.
TEST(Reservations, AreNeverOverbookedAndNeverUsedInTheirWindDown) {
  EXPECT_TRUE(rc::check("calendar", [] {
    std::vector<Reservation> calendar;
    for (int i = 0; i < 3; ++i)
      calendar.push_back({fmt::format("r{}", i), "p5.48xlarge", "z1", *rc::gen::arbitrary<bool>(),
                          kStart + minutes(*rc::gen::inRange(0, 200)), kStart + minutes(*rc::gen::inRange(200, 1000)),
                          *rc::gen::inRange(1, 8)});
    std::vector<Booking> bookings;
    for (int i = 0; i < 20; ++i) {
      const auto from = minutes(*rc::gen::inRange(0, 900));
      const auto duration = minutes(*rc::gen::inRange(1, 400));
      const auto ask = request(*rc::gen::inRange(1, 5), duration, from);
      const auto found = reservation_for(calendar, bookings, ask);
      if (found) bookings.push_back({(*found)->id, ask.count, ask.from, ask.from + duration});
    }
    for (const Reservation& r : calendar) {
      for (int minute = 0; minute < 1000; minute += 7) {
        std::int64_t used = 0;
        for (const Booking& b : bookings) {
          const bool runs = b.from <= kStart + minutes(minute) && kStart + minutes(minute) < *b.until;
          used += b.reservation == r.id && runs ? b.count : 0;
        }
        RC_ASSERT(used <= r.count);
        const bool open = r.start <= kStart + minutes(minute) && kStart + minutes(minute) < *last_use(r);
        RC_ASSERT(used == 0 || open);
      }
    }
  }));
}

}  // namespace reservations_test
}  // namespace qm::autoscaler
