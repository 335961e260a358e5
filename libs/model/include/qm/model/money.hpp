#pragma once
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace qm {

/// Nano-dollars in 64 bits, about nine billion dollars each way. Arithmetic is checked: overflow is an assertion
/// failure.
class Money {
 public:
  constexpr Money() = default;
  static constexpr Money nano(std::int64_t v) { return Money(v); }
  static Result<Money> parse_usd(std::string_view decimal);  ///< "98.32" -> 98'320'000'000 nano, exactly
  [[nodiscard]] constexpr std::int64_t nano() const { return nano_; }
  [[nodiscard]] std::string to_usd(int decimals = 9) const;  ///< "98.320000000"; fewer decimals: half-even
  Money operator+(Money other) const;
  Money operator-(Money other) const;
  Money operator-() const;
  Money& operator+=(Money other) { return *this = *this + other; }
  Money& operator-=(Money other) { return *this = *this - other; }
  friend constexpr auto operator<=>(Money, Money) = default;

 private:
  constexpr explicit Money(std::int64_t v) : nano_(v) {}
  std::int64_t nano_ = 0;
};

/// A price per hour in nano-dollars.
struct HourlyRate {
  Money per_hour;
  /// floor(rate * t / 1 h) on an absolute clock since `origin`: charges between two times are differences of this
  /// value, so the parts of any subdivision of an interval add up to the same nano-dollar.
  [[nodiscard]] Money accrued(Instant origin, Instant t) const;
  friend auto operator<=>(const HourlyRate&, const HourlyRate&) = default;
};

/// Splits an amount by weights so that the parts add up to it exactly: largest remainder, ties to the smaller index.
/// Negative amounts are split by magnitude. Weights >= 0; all zero = everything to part 0. Empty weights: empty
/// result.
std::vector<Money> split(Money amount, std::span<const std::int64_t> weights);

}  // namespace qm
