#pragma once
#include <cstdint>

namespace qm::admission::forecast {

/// A number in [0, 1) for the key (seed, a, b): always the same for one key, and independent of other keys. So the
/// draw for one workload does not depend on which other workloads exist.
/// Source   SplitMix64 (Steele, Lea and Flood 2014), by its mixing function.
[[nodiscard]] constexpr double chance(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
  const auto mix = [](std::uint64_t x) {
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31U);
  };
  return static_cast<double>(mix(mix(mix(seed) ^ a) ^ b) >> 11U) * 0x1p-53;
}

}  // namespace qm::admission::forecast
