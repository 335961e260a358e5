#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace qm::autoscaler {

/// One way to launch all n nodes of a gang: one pool, instance type, zone and market.
struct Alternative {
  std::int64_t nano_usd_hour = 0;    ///< of all n nodes together
  std::int64_t still_out_milli = 0;  ///< thousandths of the probability that it is refused
  std::int32_t order = 0;            ///< of the caller: on demand before spot, zones of the pool in their order
  bool held = false;                 ///< refused a short time ago: not requested now
  friend auto operator<=>(const Alternative&, const Alternative&) = default;
};

/// The indexes of the alternatives that may be requested now, the best first: by price, then by the probability of a
/// refusal, then by their order. At one price a zone that refused lately comes after the others.
///
/// Cost     O(n log n).
[[nodiscard]] std::vector<std::size_t> ranked(std::span<const Alternative> alternatives);

}  // namespace qm::autoscaler
