#pragma once
#include <cmath>
#include <cstdint>
#include <limits>

namespace qm::autoscaler::replicas {

// Go's conversions and sums on amd64, which never fail: a double that does not fit becomes the smallest number, and
// sums wrap.

[[nodiscard]] inline std::int32_t to_int32(double v) {
  constexpr auto kLeast = std::numeric_limits<std::int32_t>::min();
  return v > -2147483649.0 && v < 2147483648.0 ? static_cast<std::int32_t>(v) : kLeast;
}
[[nodiscard]] inline std::int64_t to_int64(double v) {
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  return v >= -9223372036854775808.0 && v < 9223372036854775808.0 ? static_cast<std::int64_t>(v) : kLeast;
}
[[nodiscard]] inline std::int64_t wrapped_sum(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  static_cast<void>(__builtin_add_overflow(a, b, &out));
  return out;
}
[[nodiscard]] inline std::int64_t wrapped_product(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  static_cast<void>(__builtin_mul_overflow(a, b, &out));
  return out;
}

}  // namespace qm::autoscaler::replicas
