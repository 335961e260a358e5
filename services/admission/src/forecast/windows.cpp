#include "qm/admission/forecast/windows.hpp"

#include <string>

namespace qm::admission::forecast {
namespace {

constexpr std::int64_t kDay = 24 * 60;

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

}  // namespace

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
