#pragma once
#include "qm/admission/kueue/amount.hpp"

#include <compare>
#include <cstdint>
#include <vector>

namespace qm::admission::volcano {

using kueue::kUnlimited;
/// An amount of each resource, by its number. Lists that are used together have the same length.
/// Units    cpu in thousandths, everything else in units. Sums saturate, kUnlimited absorbs.
using Resources = std::vector<std::int64_t>;
/// For products of two amounts, or of an amount and a weight.
__extension__ typedef __int128 Wide;

void add(Resources& to, const Resources& amounts);
void take(Resources& from, const Resources& amounts);
[[nodiscard]] Resources sum(Resources a, const Resources& b);
/// The difference, at least zero.
[[nodiscard]] Resources rest(Resources a, const Resources& b);
[[nodiscard]] Resources least(Resources a, const Resources& b);
[[nodiscard]] Resources most(Resources a, const Resources& b);
/// All amounts are zero.
[[nodiscard]] bool nothing(const Resources& a);
[[nodiscard]] bool within(const Resources& a, const Resources& limit);
/// The requested resources whose amount is beyond the limit, in order.
[[nodiscard]] std::vector<std::size_t> beyond(const Resources& a, const Resources& limit, const Resources& asked);
/// Both have an amount of some resource.
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

/// The largest share over the resources with a whole above zero; 0 if there is none.
[[nodiscard]] Share dominant(const Resources& part, const Resources& whole);

}  // namespace qm::admission::volcano
