#include "qm/admission/forecast/aging.hpp"

#include <algorithm>

namespace qm::admission::forecast {
namespace {
__extension__ using Wide = __int128;  // a difference of priorities times a duration
}

std::int32_t Aging::priority(std::int32_t base, Duration waited) const {
  if (base >= ceiling) return base;
  if (overdue(waited)) return ceiling;
  const Wide span = Wide{ceiling} - base;
  return static_cast<std::int32_t>(base + span * std::max<std::int64_t>(0, waited.count()) / bound.count());
}

std::optional<Duration> Aging::next_change(std::int32_t base, Duration waited) const {
  if (overdue(waited)) return {};
  if (base >= ceiling) return bound;
  const Wide span = Wide{ceiling} - base, above = Wide{priority(base, waited)} - base + 1;
  return Duration(static_cast<std::int64_t>((above * bound.count() + span - 1) / span));
}

}  // namespace qm::admission::forecast
