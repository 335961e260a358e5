#pragma once
#include "qm/admission/exact/amount.hpp"

#include <compare>
#include <cstdint>
#include <vector>

namespace qm::admission::volcano {

using exact::kUnlimited;
/// So much of each resource, by its number. All that belong together have the same length.
/// Units    cpu in thousandths, all else in units. Sums saturate, kUnlimited absorbs.
using Resources = std::vector<std::int64_t>;
/// For products of two amounts, or of an amount and a weight.
__extension__ typedef __int128 Wide;

void add(Resources& to, const Resources& amounts);
void take(Resources& from, const Resources& amounts);
[[nodiscard]] Resources sum(Resources a, const Resources& b);
/// Not below zero.
[[nodiscard]] Resources rest(Resources a, const Resources& b);
[[nodiscard]] Resources least(Resources a, const Resources& b);
[[nodiscard]] Resources most(Resources a, const Resources& b);
/// Nothing of any.
[[nodiscard]] bool nothing(const Resources& a);
[[nodiscard]] bool within(const Resources& a, const Resources& limit);
/// The resources that are asked for and go beyond the limit, in order.
[[nodiscard]] std::vector<std::size_t> beyond(const Resources& a, const Resources& limit, const Resources& asked);
/// Some resource is part of both.
[[nodiscard]] bool in_common(const Resources& a, const Resources& b);

/// A part of a whole, compared exactly.
struct Share {
  std::int64_t part = 0, whole = 1;
  friend std::strong_ordering operator<=>(const Share& a, const Share& b) {
    const Wide left = Wide(a.part) * b.whole, right = Wide(b.part) * a.whole;
    return left < right ? std::strong_ordering::less
                        : (left > right ? std::strong_ordering::greater : std::strong_ordering::equal);
  }
  friend bool operator==(const Share& a, const Share& b) { return (a <=> b) == 0; }
};

/// The largest share over the resources of which there is something; 0 where there is nothing of any.
[[nodiscard]] Share dominant(const Resources& part, const Resources& whole);

}  // namespace qm::admission::volcano
