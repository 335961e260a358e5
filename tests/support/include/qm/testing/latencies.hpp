#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace qm::testing {

inline std::int64_t ms_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin).count();
}

/// Number, median, maximum and all of some latencies in milliseconds, at least one, as a line of text.
inline std::string latencies(std::vector<std::int64_t> ms) {
  std::ranges::sort(ms);
  return fmt::format("n {} p50 {} max {}; all, ms: {}", ms.size(), ms[ms.size() / 2], ms.back(), fmt::join(ms, " "));
}

}  // namespace qm::testing
