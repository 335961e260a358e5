#include "qm/model/money.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace qm {
namespace {

__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 UnsignedWide;

constexpr int kDecimals = 9;
constexpr std::int64_t kNanoPerDollar = 1'000'000'000;
constexpr std::int64_t kMicrosPerHour = 3'600'000'000;

Error not_an_amount(std::string_view text, std::string_view why) {
  const bool cut = text.size() > 40;
  return Error{Code::kInvalid,
               fmt::format("\"{}{}\" is not a valid amount in dollars: {}", text.substr(0, 40), cut ? "..." : "", why),
               {},
               "write a decimal number such as 98.32, with at most nine digits behind the point"};
}

}  // namespace

Result<Money> Money::parse_usd(std::string_view decimal) {
  std::string_view rest = decimal;
  const bool minus = !rest.empty() && rest[0] == '-';
  if (minus || (!rest.empty() && rest[0] == '+')) rest.remove_prefix(1);
  const auto point = rest.find('.');
  const std::string_view whole = rest.substr(0, point);
  const std::string_view part = point == std::string_view::npos ? std::string_view() : rest.substr(point + 1);
  if (whole.empty() && part.empty()) return fail(not_an_amount(decimal, "it has no digits"));

  // Counts down from zero, because the negative range is larger by one.
  std::int64_t nano = 0;
  const auto take = [&](char c) {
    return !__builtin_mul_overflow(nano, std::int64_t{10}, &nano) &&
           !__builtin_sub_overflow(nano, std::int64_t{c - '0'}, &nano);
  };
  std::string digits(whole);
  for (std::size_t i = 0; i < std::max<std::size_t>(part.size(), kDecimals); ++i) {
    const char c = i < part.size() ? part[i] : '0';
    if (i < kDecimals) {
      digits.push_back(c);
    } else if (c >= '1' && c <= '9') {
      return fail(not_an_amount(decimal, "it is finer than a nano-dollar"));
    } else if (c != '0') {
      digits.push_back(c);  // refused below
    }
  }
  for (const char c : digits) {
    if (c < '0' || c > '9') return fail(not_an_amount(decimal, "it has other characters than digits"));
    if (!take(c)) return fail(not_an_amount(decimal, "it is beyond nine billion"));
  }
  if (minus) return Money(nano);
  if (nano == std::numeric_limits<std::int64_t>::min())
    return fail(not_an_amount(decimal, "it is beyond nine billion"));
  return Money(-nano);
}

std::string Money::to_usd(int decimals) const {
  QM_ASSERT(decimals >= 0 && decimals <= kDecimals, "{} decimals", decimals);
  std::uint64_t unit = 1;
  for (int i = decimals; i < kDecimals; ++i) unit *= 10;
  const std::uint64_t magnitude = nano_ < 0 ? -static_cast<std::uint64_t>(nano_) : static_cast<std::uint64_t>(nano_);
  std::uint64_t rounded = magnitude / unit;
  const std::uint64_t twice = magnitude % unit * 2;
  if (twice > unit || (twice == unit && rounded % 2 == 1)) ++rounded;
  const std::uint64_t per_dollar = kNanoPerDollar / unit;
  std::string out = fmt::format("{}{}", nano_ < 0 && rounded != 0 ? "-" : "", rounded / per_dollar);
  if (decimals > 0) out += fmt::format(".{:0{}}", rounded % per_dollar, decimals);
  return out;
}

Money Money::operator+(Money other) const {
  std::int64_t sum = 0;
  const bool overflow = __builtin_add_overflow(nano_, other.nano_, &sum);
  QM_ASSERT(!overflow, "{} + {} nano-dollars overflows", nano_, other.nano_);
  return Money(sum);
}

Money Money::operator-(Money other) const {
  std::int64_t difference = 0;
  const bool overflow = __builtin_sub_overflow(nano_, other.nano_, &difference);
  QM_ASSERT(!overflow, "{} - {} nano-dollars overflows", nano_, other.nano_);
  return Money(difference);
}

Money Money::operator-() const { return Money() - *this; }

Money HourlyRate::accrued(Instant origin, Instant t) const {
  const Wide product = Wide(per_hour.nano()) * (Wide(micros(t)) - micros(origin));
  Wide nano = product / kMicrosPerHour;
  if (product % kMicrosPerHour < 0) --nano;  // floor, not toward zero
  QM_ASSERT(nano >= std::numeric_limits<std::int64_t>::min() && nano <= std::numeric_limits<std::int64_t>::max(),
            "{} nano-dollars an hour for {} us overflows", per_hour.nano(), micros(t) - micros(origin));
  return Money::nano(static_cast<std::int64_t>(nano));
}

std::vector<Money> split(Money amount, std::span<const std::int64_t> weights) {
  const std::size_t n = weights.size();
  std::vector<Money> parts(n);
  if (n == 0) return parts;
  UnsignedWide total = 0;
  for (const std::int64_t weight : weights) {
    QM_ASSERT(weight >= 0, "weight {}", weight);
    total += static_cast<std::uint64_t>(weight);
  }
  if (total == 0) {
    parts[0] = amount;
    return parts;
  }
  const bool minus = amount.nano() < 0;
  const UnsignedWide magnitude =
      minus ? -static_cast<std::uint64_t>(amount.nano()) : static_cast<std::uint64_t>(amount.nano());
  std::vector<std::uint64_t> whole(n);
  std::vector<UnsignedWide> remainder(n);
  UnsignedWide given = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const UnsignedWide share = magnitude * static_cast<std::uint64_t>(weights[i]);
    whole[i] = static_cast<std::uint64_t>(share / total);
    remainder[i] = share % total;
    given += whole[i];
  }
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remainder[a] > remainder[b]; });
  const auto left = static_cast<std::size_t>(magnitude - given);
  QM_ASSERT(left < n, "{} nano-dollars left for {} parts", left, n);
  for (std::size_t i = 0; i < left; ++i) ++whole[order[i]];
  for (std::size_t i = 0; i < n; ++i) {
    parts[i] = Money::nano(static_cast<std::int64_t>(minus ? -whole[i] : whole[i]));
  }
  return parts;
}

}  // namespace qm
