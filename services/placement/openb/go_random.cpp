// Go combines the numbers of a seed with those that its generator reaches 7.8 * 10^12 draws after
// the seed 1. It is not necessary to make so many draws or to store the 607 numbers: draws are
// linear in the initial numbers, so each is a sum of them. The factors are the coefficients of x^n
// modulo the generator's polynomial, computed by 43 squarings.
#include "go_random.hpp"

#include <algorithm>
#include <limits>

namespace qm::placement::openb {
namespace {

constexpr std::size_t kLag = 607, kShortLag = 273;
constexpr std::uint64_t kAhead = 7'800'000'000'000;
using Ring = std::array<std::uint64_t, kLag>;

/// Park and Miller's generator, modulo the prime 2^31 - 1.
class ParkMiller {
 public:
  explicit ParkMiller(std::int64_t seed) : x_(seed % kPrime) {
    if (x_ < 0) x_ += kPrime;
    if (x_ == 0) x_ = 89'482'311;  // zero would stay zero
    for (int i = 0; i < 20; ++i) next();
  }
  /// Three draws combined by exclusive or, each shifted by `bits` more than the next.
  std::uint64_t word(int bits) {
    const auto high = next(), middle = next(), low = next();
    return high << (2 * bits) ^ middle << bits ^ low;
  }

 private:
  static constexpr std::int64_t kPrime = std::numeric_limits<std::int32_t>::max();
  std::uint64_t next() { return static_cast<std::uint64_t>(x_ = 48'271 * x_ % kPrime); }
  std::int64_t x_;
};

/// Polynomials below degree 607 over the integers modulo 2^64, where x^607 = x^334 + 1: multiplying by x is one draw.
Ring product(const Ring& a, const Ring& b) {
  std::array<std::uint64_t, 2 * kLag - 1> wide{};
  for (std::size_t i = 0; i < kLag; ++i) {
    for (std::size_t j = 0; j < kLag; ++j) wide[i + j] += a[i] * b[j];
  }
  for (std::size_t i = wide.size(); i-- > kLag;) {
    wide[i - kLag] += wide[i];
    wide[i - kShortLag] += wide[i];
  }
  Ring out;
  std::copy_n(wide.begin(), kLag, out.begin());
  return out;
}

Ring power_of_x(std::uint64_t exponent) {
  Ring result{1}, square{0, 1};
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = product(result, square);
    square = product(square, square);
  }
  return result;
}

/// The position of draw n in the ring; 1 is the first new draw, 0 down to -606 are the initial numbers.
std::size_t place_of(std::int64_t n) {
  constexpr auto kRing = static_cast<std::int64_t>(kLag);
  const auto left = (static_cast<std::int64_t>(kLag - kShortLag) - n) % kRing;
  return static_cast<std::size_t>(left < 0 ? left + kRing : left);
}

/// The numbers that are combined with those of a seed.
Ring far_ahead() {
  Ring first;
  ParkMiller seed(1);
  for (auto& word : first) word = seed.word(10);

  // The draws from -606 on, and as many later ones as the windows of the sums below cover.
  constexpr auto kBefore = static_cast<std::int64_t>(kLag) - 1;
  std::array<std::uint64_t, 2 * kLag> draws{};
  for (std::size_t i = 0; i < draws.size(); ++i) {
    draws[i] =
        i < kLag ? first[place_of(static_cast<std::int64_t>(i) - kBefore)] : draws[i - kLag] + draws[i - kShortLag];
  }
  const auto factors = power_of_x(kAhead);
  Ring out;
  for (std::size_t k = 0; k < kLag; ++k) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < kLag; ++i) sum += factors[i] * draws[i + k];
    out[place_of(static_cast<std::int64_t>(kAhead + k) - kBefore)] = sum;
  }
  return out;
}

}  // namespace

GoRandom::GoRandom(std::int64_t seed) {
  static const Ring mixed = far_ahead();
  ParkMiller words(seed);
  for (std::size_t i = 0; i < kLag; ++i) last_[i] = words.word(20) ^ mixed[i];
}

std::uint64_t GoRandom::next() {
  at_ = (at_ + kLag - 1) % kLag;
  write_ = (write_ + kLag - 1) % kLag;
  return last_[write_] += last_[at_];
}

std::int32_t GoRandom::below(std::int32_t bound) {
  constexpr std::uint32_t kRange = 1U << 31;
  const auto many = static_cast<std::uint32_t>(bound);
  const std::uint32_t fair = kRange - kRange % many;  // above it, some remainders would occur more often
  for (;;) {
    const auto draw = static_cast<std::uint32_t>(next() << 1 >> 33);
    if (draw < fair) return static_cast<std::int32_t>(draw % many);
  }
}

std::uint32_t GoRandom::scaled(std::uint32_t bound) {
  const std::uint32_t unfair = -bound % bound;
  for (;;) {
    const auto wide = std::uint64_t{static_cast<std::uint32_t>(next() << 1 >> 32)} * bound;
    if (static_cast<std::uint32_t>(wide) >= unfair) return static_cast<std::uint32_t>(wide >> 32);
  }
}

std::vector<std::size_t> GoRandom::permutation(std::size_t count) {
  std::vector<std::size_t> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto j = static_cast<std::size_t>(below(static_cast<std::int32_t>(i) + 1));
    out[i] = out[j];
    out[j] = i;
  }
  return out;
}

}  // namespace qm::placement::openb
