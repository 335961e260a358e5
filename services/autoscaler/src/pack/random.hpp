#pragma once
#include <cstddef>
#include <cstdint>

namespace qm::autoscaler::pack {

/// The xorshift generator of Marsaglia: quick, and equal on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL + 0x2545f4914f6cdd1dULL) {}
  /// 0 to below 1.
  double uniform() { return static_cast<double>(next()) * 0x1.0p-53; }
  /// 0 to n - 1; `n` is at least 1.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(uniform() * static_cast<double>(n)); }

 private:
  std::uint64_t next() {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return state_ >> 11;
  }
  std::uint64_t state_;
};

}  // namespace qm::autoscaler::pack
