#include "qm/admission/forecast/windows.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace qm::admission::forecast {
namespace {

constexpr std::int64_t kDay = 24 * 60;
constexpr std::int64_t kDaysLooked = 8 * 366 + 1;

struct Field {
  const char* name;
  int low, high;
};
constexpr std::array<Field, 5> kFields{
    {{"minute", 0, 59}, {"hour", 0, 23}, {"day of the month", 1, 31}, {"month", 1, 12}, {"day of the week", 0, 7}}};

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

std::optional<int> number(std::string_view text) {
  int out = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || stop != text.data() + text.size()) return {};
  return out;
}

std::string_view cut_off(std::string_view& rest, char at) {
  const auto end = std::min(rest.find(at), rest.size());
  const auto out = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return out;
}

/// The numbers that "*", "5", "1-5", "*/15" or "10-40/10" selects, as bits.
std::optional<std::uint64_t> bits_of(std::string_view item, const Field& field) {
  const bool stepped = item.find('/') != std::string_view::npos;
  const auto span = cut_off(item, '/');
  const auto step = stepped ? number(item) : std::optional(1);
  std::optional<int> low = field.low, high = field.high;
  if (span != "*") {
    auto to = span;
    low = number(cut_off(to, '-'));
    if (span.find('-') != std::string_view::npos) {
      high = number(to);
    } else if (!stepped) {
      high = low;  // "5/10" means 5 and every tenth number after it
    }
  }
  if (!low || !high || !step || *step < 1 || *low < field.low || *high > field.high || *low > *high) return {};
  std::uint64_t out = 0;
  for (int n = *low; n <= *high; n += *step) out |= std::uint64_t{1} << static_cast<unsigned>(n);
  return out;
}

bool has(std::uint64_t bits, std::int64_t n) { return (bits >> static_cast<unsigned>(n) & 1U) != 0; }

}  // namespace

Result<Cron> Cron::parse(std::string_view line) {
  Cron out;
  const std::array<std::uint64_t*, 5> bits{&out.minutes_, &out.hours_, &out.days_, &out.months_, &out.weekdays_};
  const std::array<bool*, 5> any{nullptr, nullptr, &out.any_day_, nullptr, &out.any_weekday_};
  for (std::size_t i = 0; i < kFields.size(); ++i) {
    while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
    auto list = cut_off(line, ' ');
    if (any[i] != nullptr) *any[i] = list.starts_with('*');
    const auto whole = list;
    do {
      const auto some = bits_of(cut_off(list, ','), kFields[i]);
      if (!some) return fail(Code::kInvalid, "\"{}\" is not a valid {} of a crontab line", whole, kFields[i].name);
      *bits[i] |= *some;
    } while (!list.empty());
  }
  if (line.find_first_not_of(' ') != std::string_view::npos) {
    return fail(Code::kInvalid, "\"{}\" is more than the five fields of a crontab line", line);
  }
  if (has(out.weekdays_, 7)) out.weekdays_ |= 1U;
  return out;
}

bool Cron::day_matches(std::int64_t day) const {
  using namespace std::chrono;
  const sys_days at{days{day}};
  const year_month_day date{at};
  if (!has(months_, static_cast<unsigned>(date.month()))) return false;
  const bool by_date = has(days_, static_cast<unsigned>(date.day()));
  const bool by_weekday = has(weekdays_, weekday{at}.c_encoding());
  return any_day_ || any_weekday_ ? by_date && by_weekday : by_date || by_weekday;
}

bool Cron::matches(std::int64_t minute) const {
  const auto day = floor_div(minute, kDay), of_day = minute - day * kDay;
  return has(minutes_, of_day % 60) && has(hours_, of_day / 60) && day_matches(day);
}

std::optional<std::int64_t> Cron::at_or_before(std::int64_t minute) const {
  const auto last = floor_div(minute, kDay);
  for (auto day = last; day > last - kDaysLooked; --day) {
    if (!day_matches(day)) continue;
    for (auto m = day == last ? minute - day * kDay : kDay - 1; m >= 0; --m) {
      if (has(minutes_, m % 60) && has(hours_, m / 60)) return day * kDay + m;
    }
  }
  return {};
}

std::optional<std::int64_t> Cron::after(std::int64_t minute) const {
  const auto first = floor_div(minute + 1, kDay);
  for (auto day = first; day < first + kDaysLooked; ++day) {
    if (!day_matches(day)) continue;
    for (auto m = day == first ? minute + 1 - day * kDay : 0; m < kDay; ++m) {
      if (has(minutes_, m % 60) && has(hours_, m / 60)) return day * kDay + m;
    }
  }
  return {};
}

Result<Window> Window::make(Cron begins, Duration lasts, std::chrono::minutes offset) {
  if (lasts <= Duration::zero())
    return fail(Code::kInvalid, "a window needs a duration above 0 us, not {}", lasts.count());
  return Window(begins, lasts, offset);
}

Result<Window> Window::weekly(unsigned days, std::chrono::minutes from, std::chrono::minutes to,
                              std::chrono::minutes offset) {
  constexpr std::chrono::minutes kWholeDay{kDay};
  const auto of_day = [&](std::chrono::minutes m) { return m >= std::chrono::minutes(0) && m <= kWholeDay; };
  if (days == 0 || days > 127 || !of_day(from) || !of_day(to) || from == kWholeDay) {
    return fail(Code::kInvalid,
                "a weekly window has days 1 to 127 and minutes of the day; {} from {} to {} is not valid", days,
                from.count(), to.count());
  }
  std::string line = fmt::format("{} {} * * ", from.count() % 60, from.count() / 60);
  for (unsigned day = 0; day < 7; ++day) {
    if ((days >> day & 1U) != 0) line += fmt::format("{}{}", line.back() == ' ' ? "" : ",", day);
  }
  QM_ASSIGN(const auto begins, Cron::parse(line));
  return make(begins, to > from ? to - from : to - from + kWholeDay, offset);
}

std::int64_t Window::minute_of(Instant at) const {
  return floor_div(micros(at + offset_), Duration(std::chrono::minutes(1)).count());
}
Instant Window::instant_of(std::int64_t minute) const { return Instant(std::chrono::minutes(minute)) - offset_; }

bool Window::open(Instant at) const {
  const auto begun = begins_.at_or_before(minute_of(at));
  return begun && at < instant_of(*begun) + lasts_;
}

std::optional<Instant> Window::changes_after(Instant at) const {
  if (!open(at)) {
    const auto next = begins_.after(minute_of(at));
    return next ? std::optional(instant_of(*next)) : std::nullopt;
  }
  auto last = *begins_.at_or_before(minute_of(at));
  for (int joined = 0; joined < 10'000; ++joined) {
    const Instant closes = instant_of(last) + lasts_;
    const auto later = *begins_.at_or_before(minute_of(closes));
    if (later == last) return closes;
    last = later;
  }
  return {};
}

const kueue::Quota& CalendarQuota::at(Instant now) const {
  for (const auto& [window, quota] : windows) {
    if (window.open(now)) return quota;
  }
  return otherwise;
}

std::optional<Instant> CalendarQuota::changes_after(Instant now) const {
  const auto& before = at(now);
  for (int looked = 0; looked < 1000; ++looked) {
    std::optional<Instant> next;
    for (const auto& [window, quota] : windows) {
      const auto change = window.changes_after(now);
      if (change && (!next || *change < *next)) next = change;
    }
    if (!next) return {};
    now = *next;
    if (at(now) != before) return now;
  }
  return {};
}

}  // namespace qm::admission::forecast
