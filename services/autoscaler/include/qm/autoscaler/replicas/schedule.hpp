#pragma once
#include "qm/base/time.hpp"
#include "qm/model/money.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qm::autoscaler::replicas {

/// Replicas that the load of one hour needed.
struct HourlyNeed {
  Instant hour{};  ///< its begin
  std::int32_t replicas = 0;
};

/// One size outside the busy hours, from `from` until `until` of each day, across midnight if `until` is the smaller one.
struct OffPeak {
  std::int32_t replicas = 0;
  std::int32_t from = 0, until = 0;  ///< hours of the day, 0 to 23
  std::int32_t hours = 0;            ///< of a day
  Money saving;                      ///< in 30 days, against `peak` replicas all day
  std::int64_t short_hours = 0;      ///< of the history in the window, that needed more than `replicas`
};

/// A daily schedule: `peak` replicas in the busy hours, and fewer in the others.
struct ScheduleProposal {
  std::int32_t peak = 0;         ///< the largest need
  std::int64_t days = 0;         ///< of the history
  OffPeak off_peak;              ///< the largest saving that no hour of the history contradicts
  std::vector<OffPeak> smaller;  ///< the same window with the other sizes that were given, in their order
};

struct ScheduleTerms {
  Money usd_hour;                         ///< of one replica
  std::int32_t least = 1;                 ///< replicas at any time
  std::vector<std::int32_t> other_sizes;  ///< to compare in the same window
};

/// Proposes a schedule from the needs of a history.
///
/// Of all windows of whole hours the one with the largest saving counts: its length, times the replicas between the peak and
/// the largest need within it. Ties go to the longer window, then to the earlier begin.
///
/// Units    hours of UTC; shift the instants for another zone.
/// Fails    kInvalid: fewer than 14 days, no need at all, or a size from the peak on. kNotFound: every hour of the day
///          needs the peak, so there is no saving.
/// Cost     O(history + 24 x 24).
[[nodiscard]] Result<ScheduleProposal> propose_schedule(std::span<const HourlyNeed> history,
                                                        const ScheduleTerms& terms);

}  // namespace qm::autoscaler::replicas
