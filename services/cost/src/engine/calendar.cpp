#include "qm/cost/state.hpp"

#include <charconv>
#include <chrono>

namespace qm::cost {
namespace {

using std::chrono::days;
using std::chrono::floor;
using std::chrono::sys_days;
using std::chrono::year_month;
using std::chrono::year_month_day;

year_month month_of(Instant t) {
  const year_month_day day{sys_days{floor<days>(t.time_since_epoch())}};
  return day.year() / day.month();
}

Instant first_instant(year_month month) {
  return Instant{std::chrono::duration_cast<Duration>(sys_days{month / 1}.time_since_epoch())};
}

}  // namespace

std::string period_of(Instant t) {
  const auto month = month_of(t);
  return fmt::format("{:04}-{:02}", static_cast<int>(month.year()), static_cast<unsigned>(month.month()));
}

Result<Instant> period_start(std::string_view period) {
  int year = 0;
  unsigned month = 0;
  const auto number = [&](std::size_t at, std::size_t length, auto& out) {
    const char* end = period.data() + at + length;
    const auto [stop, error] = std::from_chars(period.data() + at, end, out);
    return error == std::errc{} && stop == end;
  };
  if (period.size() != 7 || period[4] != '-' || !number(0, 4, year) || !number(5, 2, month) || year < 1970 ||
      month < 1 || month > 12) {
    return fail(Error{Code::kInvalid, fmt::format("period \"{}\" is not a month", period), "period",
                      "write it as YYYY-MM, or leave it empty for everything"});
  }
  return first_instant(std::chrono::year{year} / std::chrono::month{month});
}

Instant next_period(Instant t) { return first_instant(month_of(t) + std::chrono::months{1}); }

std::pair<Instant, Instant> period_around(Instant t, BudgetPeriod period, Duration utc_offset) {
  const Instant local = t + utc_offset;
  const auto utc = [&](sys_days day) {
    return Instant{std::chrono::duration_cast<Duration>(day.time_since_epoch())} - utc_offset;
  };
  const sys_days day{floor<days>(local.time_since_epoch())};
  switch (period) {
    case BudgetPeriod::kDay:
      return {utc(day), utc(day + days{1})};
    case BudgetPeriod::kWeek: {
      const sys_days monday = day - (std::chrono::weekday{day} - std::chrono::Monday);
      return {utc(monday), utc(monday + days{7})};
    }
    case BudgetPeriod::kYear: {
      const auto year = month_of(local).year();
      return {utc(sys_days{year / 1 / 1}), utc(sys_days{(year + std::chrono::years{1}) / 1 / 1})};
    }
    case BudgetPeriod::kMonth:
      break;
  }
  const auto month = month_of(local);
  return {utc(sys_days{month / 1}), utc(sys_days{(month + std::chrono::months{1}) / 1})};
}

Instant next_hour(Instant t) {
  const auto hour = floor<std::chrono::hours>(t.time_since_epoch());
  return Instant{Duration{hour} + std::chrono::hours{1}};
}

}  // namespace qm::cost
