#include "qm/placement/relayout.hpp"

#include <array>
#include <charconv>

namespace qm::placement::relayout {
namespace {

using std::chrono::minutes;

constexpr std::array<std::string_view, 7> kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
constexpr int kDayMinutes = 24 * 60;
constexpr unsigned kEveryDay = 0x7f;
constexpr int kThursday = 4;  // 1 January 1970

tl::unexpected<Error> wrong(std::string_view text) {
  return fail(Error{Code::kInvalid, fmt::format("\"{}\" is not a weekly window", text), "window",
                    "write days and hours in UTC, as in Sat,Sun 02:00-06:00"});
}

/// Parses "02:30"; -1 = not a valid time of the day.
int minute_of(std::string_view text) {
  const auto number = [](std::string_view digits) {
    int value = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() && digits.size() == 2 ? value : -1;
  };
  if (text.size() != 5 || text[2] != ':') return -1;
  const int hour = number(text.substr(0, 2)), minute = number(text.substr(3));
  return hour < 0 || hour > 23 || minute < 0 || minute > 59 ? -1 : hour * 60 + minute;
}

}  // namespace

Result<Weekly> weekly_of(std::string_view text) {
  Weekly out;
  const auto space = text.rfind(' ');
  std::string_view days = space == std::string_view::npos ? std::string_view() : text.substr(0, space);
  const std::string_view hours = space == std::string_view::npos ? text : text.substr(space + 1);
  if (days.empty()) out.days = kEveryDay;
  for (bool more = !days.empty(); more;) {
    const auto comma = days.find(',');
    const auto* day = std::find(kDays.begin(), kDays.end(), days.substr(0, comma));
    if (day == kDays.end()) return wrong(text);
    out.days |= 1U << static_cast<unsigned>(day - kDays.begin());
    more = comma != std::string_view::npos;
    days.remove_prefix(more ? comma + 1 : days.size());
  }
  const auto dash = hours.find('-');
  const int from = minute_of(hours.substr(0, dash));
  const int to = dash == std::string_view::npos ? -1 : minute_of(hours.substr(dash + 1));
  if (from < 0 || to < 0) return wrong(text);
  out.from = minutes(from);
  out.to = minutes(to);
  return out;
}

std::pair<Instant, Instant> next_window(std::span<const Weekly> windows, Instant now) {
  const auto today = std::chrono::floor<minutes>(now.time_since_epoch()).count() / kDayMinutes;
  std::pair<Instant, Instant> best{};
  for (const Weekly& window : windows) {
    for (auto day = today - 1; day <= today + 7; ++day) {
      if ((window.days >> ((day + kThursday) % 7) & 1U) == 0) continue;
      const Instant begins{std::chrono::duration_cast<Duration>(minutes(day * kDayMinutes) + window.from)};
      const minutes lasts = window.to - window.from + minutes(window.to > window.from ? 0 : kDayMinutes);
      if (begins + lasts <= now) continue;
      if (best.second == Instant{} || begins < best.first) best = {begins, begins + lasts};
      break;
    }
  }
  return best;
}

}  // namespace qm::placement::relayout
