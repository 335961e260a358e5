#include "qm/base/time.hpp"

#include <charconv>

namespace qm {
namespace {

// Civil dates from days since 1970 and back (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
constexpr std::int64_t days_from_civil(std::int64_t y, unsigned m, unsigned d) {
  y -= m <= 2;
  const std::int64_t era = (y >= 0 ? y : y - 399) / 400;
  const unsigned yoe = static_cast<unsigned>(y - era * 400);
  const unsigned doy = (153 * (m > 2 ? m - 3 : m + 9) + 2) / 5 + d - 1;
  const unsigned doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
  return era * 146097 + static_cast<std::int64_t>(doe) - 719468;
}

struct Civil {
  std::int64_t year;
  unsigned month, day;
};

constexpr Civil civil_from_days(std::int64_t z) {
  z += 719468;
  const std::int64_t era = (z >= 0 ? z : z - 146096) / 146097;
  const unsigned doe = static_cast<unsigned>(z - era * 146097);
  const unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  const unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  const unsigned mp = (5 * doy + 2) / 153;
  const unsigned m = mp < 10 ? mp + 3 : mp - 9;
  return {static_cast<std::int64_t>(yoe) + era * 400 + (m <= 2), m, doy - (153 * mp + 2) / 5 + 1};
}

bool digits(std::string_view text, std::size_t at, std::size_t n, int& out) {
  if (at + n > text.size()) return false;
  out = 0;
  for (std::size_t i = at; i < at + n; ++i) {
    if (text[i] < '0' || text[i] > '9') return false;
    out = out * 10 + (text[i] - '0');
  }
  return true;
}

}  // namespace

std::string to_rfc3339(Instant t) {
  std::int64_t us = micros(t);
  std::int64_t sec = us / 1'000'000;
  us %= 1'000'000;
  if (us < 0) {
    us += 1'000'000;
    --sec;
  }
  std::int64_t day = sec / 86400;
  std::int64_t rest = sec % 86400;
  if (rest < 0) {
    rest += 86400;
    --day;
  }
  const Civil c = civil_from_days(day);
  std::string text = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", c.year, c.month, c.day, rest / 3600,
                                 rest / 60 % 60, rest % 60);
  if (us != 0) text += fmt::format(".{:06}", us);
  return text + "Z";
}

Result<Instant> from_rfc3339(std::string_view text) {
  const auto bad = [&] {
    return fail(Error{
        Code::kInvalid, fmt::format("\"{}\" is not an RFC 3339 time", text), {}, "write it like 2026-11-21T09:14:29Z"});
  };
  int y = 0, mo = 0, d = 0, h = 0, mi = 0, s = 0;
  if (!digits(text, 0, 4, y) || !digits(text, 5, 2, mo) || !digits(text, 8, 2, d) || !digits(text, 11, 2, h) ||
      !digits(text, 14, 2, mi) || !digits(text, 17, 2, s) || text[4] != '-' || text[7] != '-' ||
      (text[10] != 'T' && text[10] != 't' && text[10] != ' ') || text[13] != ':' || text[16] != ':') {
    return bad();
  }
  if (mo < 1 || mo > 12 || d < 1 || d > 31 || h > 23 || mi > 59 || s > 60) return bad();
  const std::int64_t days = days_from_civil(y, static_cast<unsigned>(mo), static_cast<unsigned>(d));
  if (const Civil back = civil_from_days(days); back.month != static_cast<unsigned>(mo)) return bad();  // 31 April
  std::size_t at = 19;
  std::int64_t us = 0;
  if (at < text.size() && text[at] == '.') {
    std::int64_t scale = 100'000;
    std::size_t n = 0;
    for (++at; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at, ++n, scale /= 10)
      us += (text[at] - '0') * scale;
    if (n == 0) return bad();
  }
  std::int64_t offset = 0;
  if (at < text.size() && (text[at] == 'Z' || text[at] == 'z')) {
    ++at;
  } else if (at < text.size() && (text[at] == '+' || text[at] == '-')) {
    int oh = 0, om = 0;
    if (!digits(text, at + 1, 2, oh) || !digits(text, at + 4, 2, om) || text[at + 3] != ':' || oh > 23 || om > 59)
      return bad();
    offset = (oh * 3600 + om * 60) * (text[at] == '-' ? -1 : 1);
    at += 6;
  } else {
    return bad();
  }
  if (at != text.size()) return bad();
  const std::int64_t sec = days * 86400 + h * 3600 + mi * 60 + s - offset;
  return from_micros(sec * 1'000'000 + us);
}

}  // namespace qm
