#pragma once
#include <cstdint>

namespace qm::calendar {

[[nodiscard]] inline std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

/// True if a field of a crontab line selects the number.
[[nodiscard]] inline bool has(std::uint64_t bits, std::int64_t n) {
  return (bits >> static_cast<unsigned>(n) & 1U) != 0;
}

}  // namespace qm::calendar
