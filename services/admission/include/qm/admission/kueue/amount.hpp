#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>

namespace qm::admission::kueue {

/// A quota without limit.
inline constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

/// Arithmetic of quota amounts: kUnlimited absorbs, everything else saturates.
/// Source   Kueue, pkg/resources/amount.go.
[[nodiscard]] constexpr std::int64_t plus(std::int64_t a, std::int64_t b) {
  if (a == kUnlimited || b == kUnlimited) return kUnlimited;
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return a > 0 ? kUnlimited : std::numeric_limits<std::int64_t>::min();
  return sum;
}
[[nodiscard]] constexpr std::int64_t minus(std::int64_t a, std::int64_t b) {
  if (a == kUnlimited) return b == kUnlimited ? 0 : kUnlimited;
  if (b == kUnlimited) return std::numeric_limits<std::int64_t>::min();
  std::int64_t difference = 0;
  if (__builtin_sub_overflow(a, b, &difference)) {
    return a > 0 ? kUnlimited : std::numeric_limits<std::int64_t>::min();
  }
  return difference;
}
[[nodiscard]] constexpr std::int64_t at_least_zero(std::int64_t v) { return std::max<std::int64_t>(0, v); }

}  // namespace qm::admission::kueue
