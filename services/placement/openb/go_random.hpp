#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace qm::placement::openb {

/// Draws the numbers that Go's math/rand draws from the same seed, so that runs of a Go program can
/// be reproduced event by event.
///
/// Threads  one; two generators share nothing.
/// Cost     a few nanoseconds a draw; some milliseconds once in a process, for the numbers that
///          seeds are combined with.
/// Source   an additive lagged Fibonacci generator, x[n] = x[n - 607] + x[n - 273] modulo 2^64,
///          seeded by Park and Miller's with the factor 48271; numbers below a bound are derived
///          from it as in math/rand, unchanged since Go 1.
class GoRandom {
 public:
  explicit GoRandom(std::int64_t seed);

  std::uint64_t next();                    ///< rand.Uint64
  std::int32_t below(std::int32_t bound);  ///< rand.Intn: 0 to bound - 1; the bound is at least 1
  /// rand.Perm: the numbers from 0 to count - 1, each once.
  std::vector<std::size_t> permutation(std::size_t count);
  /// rand.Shuffle.
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[static_cast<std::size_t>(scaled(static_cast<std::uint32_t>(i)))]);
    }
  }

 private:
  std::uint32_t scaled(std::uint32_t bound);  ///< below(), as Go computes it for shuffles: by a product

  static constexpr std::size_t kLag = 607, kShortLag = 273;
  std::array<std::uint64_t, kLag> last_{};         ///< a ring of the last 607 draws, in descending positions
  std::size_t at_ = 0, write_ = kLag - kShortLag;  ///< read position of the short lag; position of the long one
};

}  // namespace qm::placement::openb
