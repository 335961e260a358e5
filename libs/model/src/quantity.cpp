// Parsing and formatting of Kubernetes quantities.
//
// A text is digits, an optional point and a suffix that multiplies by 10^e or 2^e. Everything becomes a whole number
// of nano-units: the whole digits are multiplied in 128 bits with overflow checks, the digits behind the point are
// folded from the last to the first, with one sticky bit for the remainder of divisions, so that rounding up is
// exact for any number of digits.
#include "qm/model/quantity.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

namespace qm {
namespace {

__extension__ typedef __int128 Wide;
using Format = Quantity::Format;

constexpr std::int64_t kNano = 1'000'000'000;
constexpr Wide kMaxBinary = Wide(std::numeric_limits<std::int64_t>::max()) * kNano;
constexpr std::size_t kLongestText = 128;
/// Beyond this many places only zero fits, and below it everything rounds to one nano.
constexpr std::int64_t kFarPlaces = 64;

struct Suffix {
  std::string_view text;
  int base;
  int exponent;
};
constexpr std::array<Suffix, 16> kSuffixes{{{"n", 10, -9},
                                            {"u", 10, -6},
                                            {"m", 10, -3},
                                            {"", 10, 0},
                                            {"k", 10, 3},
                                            {"M", 10, 6},
                                            {"G", 10, 9},
                                            {"T", 10, 12},
                                            {"P", 10, 15},
                                            {"E", 10, 18},
                                            {"Ki", 2, 10},
                                            {"Mi", 2, 20},
                                            {"Gi", 2, 30},
                                            {"Ti", 2, 40},
                                            {"Pi", 2, 50},
                                            {"Ei", 2, 60}}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Scale {
  Format format = Format::kDecimalSi;
  int base = 10;
  std::int64_t exponent = 0;
};

std::optional<Scale> parse_suffix(std::string_view text) {
  for (const Suffix& suffix : kSuffixes) {
    if (suffix.text != text) continue;
    return Scale{suffix.base == 2 ? Format::kBinarySi : Format::kDecimalSi, suffix.base, suffix.exponent};
  }
  if (text.size() < 2 || (text[0] != 'e' && text[0] != 'E')) return std::nullopt;
  text.remove_prefix(1);
  const bool minus = text[0] == '-';
  if (minus || text[0] == '+') text.remove_prefix(1);
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_digit)) return std::nullopt;
  std::int64_t exponent = 0;
  for (const char c : text) exponent = std::min<std::int64_t>(exponent * 10 + (c - '0'), 10'000);
  return Scale{Format::kDecimalExponent, 10, minus ? -exponent : exponent};
}

/// digits * 10^(point - number of digits) * 2^exponent2, in nano-units rounded up; nullopt if it does not fit.
std::optional<Wide> to_nano(std::string digits, std::int64_t point, int exponent2) {
  const auto first = digits.find_first_not_of('0');
  if (first == std::string::npos) return Wide(0);
  digits.erase(0, first);
  point -= static_cast<std::int64_t>(first);
  if (point > kFarPlaces) return std::nullopt;
  point = std::max(point, -kFarPlaces);
  if (point < 0) {
    digits.insert(0, static_cast<std::size_t>(-point), '0');
    point = 0;
  }
  const auto whole_places = static_cast<std::size_t>(point);
  if (digits.size() < whole_places) digits.append(whole_places - digits.size(), '0');

  const Wide unit = Wide(kNano) << exponent2;
  Wide whole = 0;
  for (std::size_t i = 0; i < whole_places; ++i) {
    if (__builtin_mul_overflow(whole, Wide(10), &whole) ||
        __builtin_add_overflow(whole, Wide(digits[i] - '0'), &whole)) {
      return std::nullopt;
    }
  }
  if (__builtin_mul_overflow(whole, unit, &whole)) return std::nullopt;

  Wide part = 0;
  bool lost = false;
  for (std::size_t i = digits.size(); i-- > whole_places;) {
    const Wide sum = unit * (digits[i] - '0') + part;
    lost = lost || sum % 10 != 0;
    part = sum / 10;
  }
  if (__builtin_add_overflow(whole, part + (lost ? 1 : 0), &whole)) return std::nullopt;
  return whole;
}

std::string digits_of(Wide magnitude) {
  std::string text;
  do {
    text.push_back(static_cast<char>('0' + static_cast<int>(magnitude % 10)));
    magnitude /= 10;
  } while (magnitude != 0);
  std::reverse(text.begin(), text.end());
  return text;
}

Error not_a_quantity(std::string_view text, std::string_view why) {
  const bool cut = text.size() > 40;
  return Error{Code::kInvalid,
               fmt::format("\"{}{}\" is not a valid quantity: {}", text.substr(0, 40), cut ? "..." : "", why),
               {},
               "write a number with an optional suffix such as 100m, 1.5, 8Gi or 1e3"};
}

std::int64_t rounded_away(Wide value, Wide unit) {
  Wide out = value / unit;
  if (value % unit != 0) out += value < 0 ? -1 : 1;
  return static_cast<std::int64_t>(
      std::clamp<Wide>(out, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()));
}

/// The largest suffix of one family for a number that is `exponent` places above one.
std::string suffix_text(int base, int exponent) {
  for (const Suffix& suffix : kSuffixes) {
    if (suffix.base == base && suffix.exponent == exponent) return std::string(suffix.text);
  }
  return {};
}

}  // namespace

Result<Quantity> Quantity::parse(std::string_view text) {
  if (text.empty()) return fail(not_a_quantity(text, "it is empty"));
  if (text.size() > kLongestText) return fail(not_a_quantity(text, "it is too long"));
  std::string_view rest = text;
  const bool minus = rest[0] == '-';
  if (minus || rest[0] == '+') rest.remove_prefix(1);

  std::string digits;
  std::size_t at = 0;
  while (at < rest.size() && is_digit(rest[at])) digits.push_back(rest[at++]);
  auto point = static_cast<std::int64_t>(digits.size());
  if (at < rest.size() && rest[at] == '.') {
    ++at;
    while (at < rest.size() && is_digit(rest[at])) digits.push_back(rest[at++]);
  }
  if (digits.empty()) return fail(not_a_quantity(text, "it has no digits"));
  const auto scale = parse_suffix(rest.substr(at));
  if (!scale) return fail(not_a_quantity(text, fmt::format("\"{}\" is not a valid suffix", rest.substr(at, 20))));

  if (scale->base == 10) point += scale->exponent;
  auto nano = to_nano(std::move(digits), point, scale->base == 2 ? static_cast<int>(scale->exponent) : 0);
  Quantity out;
  out.format_ = scale->format;
  if (scale->format == Format::kBinarySi) {
    nano = std::min(nano.value_or(kMaxBinary), kMaxBinary);
    // A fraction of one has no binary form.
    if (*nano > 0 && *nano < kNano) out.format_ = Format::kDecimalSi;
  }
  if (!nano) return fail(not_a_quantity(text, "it is larger than 1.7e29"));
  out.nano_ = minus ? -*nano : *nano;
  return out;
}

Quantity Quantity::of(std::int64_t units, Format format) {
  Quantity out;
  out.nano_ = Wide(units) * kNano;
  out.format_ = format;
  return out;
}

Quantity Quantity::of_milli(std::int64_t milli, Format format) {
  Quantity out;
  out.nano_ = Wide(milli) * (kNano / 1000);
  out.format_ = format;
  return out;
}

std::string Quantity::to_string() const {
  if (nano_ == 0) return "0";
  const Wide magnitude = nano_ < 0 ? -nano_ : nano_;
  const std::string sign = nano_ < 0 ? "-" : "";

  if (format_ == Format::kBinarySi && magnitude >= Wide(1024) * kNano && magnitude % kNano == 0) {
    Wide mantissa = magnitude / kNano;
    int exponent = 0;
    while (mantissa % 1024 == 0 && exponent < 60) {
      mantissa /= 1024;
      exponent += 10;
    }
    return sign + digits_of(mantissa) + suffix_text(2, exponent);
  }

  Wide mantissa = magnitude;
  int exponent = -9;
  // Suffixes end at E; larger numbers keep their digits, so that the output is parsed as the same number.
  const int last = format_ == Format::kDecimalExponent ? 60 : 18;
  while (mantissa % 1000 == 0 && exponent < last) {
    mantissa /= 1000;
    exponent += 3;
  }
  if (format_ != Format::kDecimalExponent) return sign + digits_of(mantissa) + suffix_text(10, exponent);
  return sign + digits_of(mantissa) + (exponent == 0 ? std::string() : "e" + std::to_string(exponent));
}

std::int64_t Quantity::units() const { return rounded_away(nano_, kNano); }
std::int64_t Quantity::milli() const { return rounded_away(nano_, kNano / 1000); }

Quantity Quantity::operator+(const Quantity& other) const {
  Quantity out;
  out.format_ = nano_ == 0 ? other.format_ : format_;
  const bool overflow = __builtin_add_overflow(nano_, other.nano_, &out.nano_);
  QM_ASSERT(!overflow, "{} + {} exceeds the range of a quantity", to_string(), other.to_string());
  return out;
}

Quantity Quantity::operator-(const Quantity& other) const {
  Quantity out;
  out.format_ = nano_ == 0 ? other.format_ : format_;
  const bool overflow = __builtin_sub_overflow(nano_, other.nano_, &out.nano_);
  QM_ASSERT(!overflow, "{} - {} exceeds the range of a quantity", to_string(), other.to_string());
  return out;
}

}  // namespace qm
