#include "qm/calendar/cron.hpp"

#include "fields.hpp"
#include "qm/base/parse.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <utility>

namespace qm::calendar {
namespace {

constexpr std::int64_t kDay = 24 * 60;
constexpr std::int64_t kDaysLooked = 8 * 366 + 1;

constexpr std::array<std::string_view, 12> kMonths{"jan", "feb", "mar", "apr", "may", "jun",
                                                   "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::array<std::string_view, 7> kWeekdays{"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

struct Field {
  const char* name;
  int low, high;
};
constexpr std::array<Field, 5> kFields{
    {{"minute", 0, 59}, {"hour", 0, 23}, {"day of the month", 1, 31}, {"month", 1, 12}, {"day of the week", 0, 7}}};

constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kMacros{{{"@yearly", "0 0 1 1 *"},
                                                                                {"@annually", "0 0 1 1 *"},
                                                                                {"@monthly", "0 0 1 * *"},
                                                                                {"@weekly", "0 0 * * 0"},
                                                                                {"@daily", "0 0 * * *"},
                                                                                {"@midnight", "0 0 * * *"},
                                                                                {"@hourly", "0 * * * *"}}};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

/// A number, or the name of a month or a day of the week.
std::optional<int> value_of(std::string_view text, const Field& field) {
  const auto index = [&](const auto& names, int first) -> std::optional<int> {
    const auto at = std::ranges::find(names, std::string_view(lower(text)));
    if (at == names.end()) return {};
    return first + static_cast<int>(at - names.begin());
  };
  if (const auto number = whole_number<int>(text)) return number;
  if (field.low == 1 && field.high == 12) return index(kMonths, 1);
  return field.high <= 7 ? index(kWeekdays, 0) : std::nullopt;
}

std::string_view cut_off(std::string_view& rest, char at) {
  const auto end = std::min(rest.find(at), rest.size());
  const auto out = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return out;
}

bool is_star(std::string_view span, CronDialect dialect) {
  return span == "*" || (span == "?" && dialect == CronDialect::kRobfig);
}

struct Item {
  std::uint64_t bits = 0;
  bool star = false;  // it leaves the kind of days open
};

/// The numbers that "*", "5", "1-5", "*/15" or "10-40/10" selects.
std::optional<Item> item_of(std::string_view item, const Field& field, CronDialect dialect) {
  const bool stepped = item.find('/') != std::string_view::npos;
  const auto span = cut_off(item, '/');
  const auto step = stepped ? whole_number<int>(item) : std::optional(1);
  std::optional<int> low = field.low, high = field.high;
  const bool star = is_star(span, dialect);
  if (!star) {
    auto to = span;
    low = value_of(cut_off(to, '-'), field);
    if (span.find('-') != std::string_view::npos) {
      high = value_of(to, field);
    } else if (!stepped) {
      high = low;  // "5/10" means 5 and every tenth number after it
    }
  }
  if (!low || !high || !step || *step < 1 || *low < field.low || *high > field.high || *low > *high) return {};
  Item out;
  for (int n = *low; n <= *high; n += *step) out.bits |= std::uint64_t{1} << static_cast<unsigned>(n);
  out.star = star && *step == 1;
  return out;
}

}  // namespace

Result<Cron> Cron::parse(std::string_view line, CronDialect dialect) {
  if (line.starts_with('@')) {
    const auto macro = std::ranges::find(kMacros, line, &std::pair<std::string_view, std::string_view>::first);
    if (macro == kMacros.end()) return fail(Code::kInvalid, "\"{}\" is not a macro of a crontab line", line);
    return parse(macro->second, dialect);
  }
  Cron out;
  const std::array<std::uint64_t*, 5> bits{&out.minutes_, &out.hours_, &out.days_, &out.months_, &out.weekdays_};
  const std::array<bool*, 5> any{nullptr, nullptr, &out.any_day_, nullptr, &out.any_weekday_};
  for (std::size_t i = 0; i < kFields.size(); ++i) {
    Field field = kFields[i];
    if (i == 4 && dialect == CronDialect::kRobfig) field.high = 6;
    while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
    auto list = cut_off(line, ' ');
    const auto whole = list;
    bool star = false;
    do {
      const auto some = item_of(cut_off(list, ','), field, dialect);
      if (!some) return fail(Code::kInvalid, "\"{}\" is not a valid {} of a crontab line", whole, field.name);
      *bits[i] |= some->bits;
      star |= some->star;
    } while (!list.empty());
    if (any[i] != nullptr) *any[i] = dialect == CronDialect::kCrontab ? whole.starts_with('*') : star;
  }
  if (line.find_first_not_of(' ') != std::string_view::npos) {
    return fail(Code::kInvalid, "\"{}\" is more than the five fields of a crontab line", line);
  }
  if (has(out.weekdays_, 7)) out.weekdays_ |= 1U;
  return out;
}

bool Cron::month_matches(std::int64_t day) const {
  using namespace std::chrono;
  return has(months_, static_cast<unsigned>(year_month_day{sys_days{days{day}}}.month()));
}

bool Cron::day_matches(std::int64_t day) const {
  using namespace std::chrono;
  const sys_days at{days{day}};
  const year_month_day date{at};
  const bool by_date = has(days_, static_cast<unsigned>(date.day()));
  const bool by_weekday = has(weekdays_, weekday{at}.c_encoding());
  return any_day_ || any_weekday_ ? by_date && by_weekday : by_date || by_weekday;
}

bool Cron::matches(std::int64_t minute) const {
  const auto day = floor_div(minute, kDay), of_day = minute - day * kDay;
  return has(minutes_, of_day % 60) && has(hours_, of_day / 60) && month_matches(day) && day_matches(day);
}

std::optional<std::int64_t> Cron::at_or_before(std::int64_t minute) const {
  const auto last = floor_div(minute, kDay);
  for (auto day = last; day > last - kDaysLooked; --day) {
    if (!month_matches(day) || !day_matches(day)) continue;
    for (auto m = day == last ? minute - day * kDay : kDay - 1; m >= 0; --m) {
      if (has(minutes_, m % 60) && has(hours_, m / 60)) return day * kDay + m;
    }
  }
  return {};
}

std::optional<std::int64_t> Cron::after(std::int64_t minute) const {
  const auto first = floor_div(minute + 1, kDay);
  for (auto day = first; day < first + kDaysLooked; ++day) {
    if (!month_matches(day) || !day_matches(day)) continue;
    for (auto m = day == first ? minute + 1 - day * kDay : 0; m < kDay; ++m) {
      if (has(minutes_, m % 60) && has(hours_, m / 60)) return day * kDay + m;
    }
  }
  return {};
}

}  // namespace qm::calendar
