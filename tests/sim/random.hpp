#pragma once
#include <cstdint>
#include <vector>

namespace qm::sim {

/// A small generator with the same numbers on every platform (SplitMix64): a seed is a schedule.
class Random {
 public:
  /// The seed is mixed: with multiples of the step each seed would be its neighbor's sequence, shifted by one draw.
  explicit Random(std::uint64_t seed) : state_(mixed(mixed(seed) + 1)) {}
  std::uint64_t next() { return mixed(state_ += 0x9e3779b97f4a7c15ULL); }
  /// From `low` to `high`, both included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
  }
  /// True `per_mille` times of a thousand.
  bool chance(int per_mille) { return between(0, 999) < per_mille; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(from.size()) - 1))];
  }
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(i) - 1))]);
    }
  }

 private:
  static std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

}  // namespace qm::sim
