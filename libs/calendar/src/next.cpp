// The search of robfig/cron: each field in turn, from month to minute, is advanced until it matches; a field that wraps
// around begins the search again. Steps of an hour are steps of real time. Steps of a day are steps of the wall clock, and
// a wall clock time that does not exist becomes one that does.
#include "fields.hpp"
#include "qm/calendar/zone.hpp"

#include <chrono>
#include <utility>

namespace qm::calendar {

class NextSearch {
 public:
  NextSearch(const Cron& cron, const Zone& zone, std::int64_t after) : cron_(cron), zone_(zone) { set(after + 1); }

  std::optional<std::int64_t> run() {
    const int last_year = year_ + 5;
    while (year_ <= last_year) {
      if (to_month() && to_day() && to_hour() && to_minute() && to_second()) return now_;
    }
    return {};
  }

 private:
  static constexpr std::int64_t kHour = 3600, kSecondsOfDay = 24 * kHour;

  void set(std::int64_t unix_seconds) {
    using namespace std::chrono;
    now_ = unix_seconds;
    const auto local = unix_seconds + zone_.offset_at(unix_seconds);
    day_ = floor_div(local, kSecondsOfDay);
    of_day_ = local - day_ * kSecondsOfDay;
    const year_month_day date{sys_days{days{day_}}};
    year_ = static_cast<int>(date.year());
    month_ = static_cast<unsigned>(date.month());
    of_month_ = static_cast<unsigned>(date.day());
  }
  [[nodiscard]] std::int64_t hour() const { return of_day_ / kHour; }

  /// A wall clock time of a day as an instant. One that occurs twice or not at all is taken with the offset that
  /// applies at the same number of seconds in UTC, or else with the one that applies at the result.
  void set_wall(std::int64_t day, std::int64_t of_day) {
    const auto wall = day * kSecondsOfDay + of_day;
    const auto guess = zone_.offset_at(wall);
    set(guess == 0 ? wall : wall - zone_.offset_at(wall - guess));
  }
  /// Rounds down to the begin of a field, at the first step of any field.
  template <class Round>
  void before_first_step(Round round) {
    if (!std::exchange(stepped_, true)) round();
  }

  // Each returns false after a wrap.
  bool to_month() {
    using namespace std::chrono;
    while (!cron_.month_matches(day_)) {
      before_first_step([&] { set_wall(day_ - (of_month_ - 1), 0); });
      auto then = year_month{year{year_}, month{month_}} + months{1};
      set_wall(sys_days{then / day{1}}.time_since_epoch().count() + (of_month_ - 1), of_day_);
      if (month_ == 1) return false;
    }
    return true;
  }
  bool to_day() {
    while (!cron_.day_matches(day_)) {
      before_first_step([&] { set_wall(day_, 0); });
      set_wall(day_ + 1, of_day_);
      if (hour() > 12) {
        set(now_ + (24 - hour()) * kHour);
      } else if (hour() != 0) {
        set(now_ - hour() * kHour);
      }
      if (of_month_ == 1) return false;
    }
    return true;
  }
  bool to_hour() {
    while (!has(cron_.hours_, hour())) {
      before_first_step([&] { set_wall(day_, hour() * kHour); });
      set(now_ + kHour);
      if (hour() == 0) return false;
    }
    return true;
  }
  bool to_minute() {
    while (!has(cron_.minutes_, of_day_ / 60 % 60)) {
      before_first_step([&] { set(floor_div(now_, 60) * 60); });
      set(now_ + 60);
      if (of_day_ / 60 % 60 == 0) return false;
    }
    return true;
  }
  bool to_second() {
    while (of_day_ % 60 != 0) {
      stepped_ = true;
      set(now_ + 1);
      if (of_day_ % 60 == 0) return false;
    }
    return true;
  }

  const Cron& cron_;
  const Zone& zone_;
  std::int64_t now_ = 0, day_ = 0, of_day_ = 0;
  int year_ = 0;
  unsigned month_ = 0, of_month_ = 0;
  bool stepped_ = false;
};

std::optional<Instant> next(const Cron& cron, Instant after, const Zone& zone) {
  const auto found = NextSearch(cron, zone, floor_div(micros(after), 1'000'000)).run();
  return found ? std::optional(from_micros(*found * 1'000'000)) : std::nullopt;
}

}  // namespace qm::calendar
