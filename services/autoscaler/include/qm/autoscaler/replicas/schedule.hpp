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
  Instant hour{};             ///< its begin
  std::int32_t replicas = 0;  ///< from 0
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
  std::int32_t peak = 0;         ///< the largest need, at least the minimum
  std::int64_t days = 0;         ///< on which the history has each hour of the day
  OffPeak off_peak;              ///< the largest saving that no hour of the history contradicts
  std::vector<OffPeak> smaller;  ///< the same window with the other sizes that were given, in their order
};

struct ScheduleTerms {
  Money usd_hour;                         ///< of one replica, from 0
  std::int32_t least = 1;                 ///< replicas at any time
  std::vector<std::int32_t> other_sizes;  ///< to compare in the same window
  std::string timezone;                   ///< of the IANA database; empty = UTC
};

/// Proposes a schedule from the needs of a history.
///
/// Of all windows of whole hours the one with the largest saving counts: its length, times the replicas between the peak and
/// the largest need within it. Ties go to the longer window, then to the earlier begin.
///
/// Hours    of the day in the time zone of the terms, through its changes of summer time. An hour of the history that
///          overlaps two of them, as with a zone of half hours, counts in both.
/// Fails    kInvalid: the history has an hour of the day on fewer than 14 days; the time zone is unknown. Also a size that is not
///          below the peak, and a saving beyond the range of Money. kNotFound: each hour of the day needs the peak.
/// Threads  any; reads only its arguments.
/// Cost     O(history log history + 24 x 24).
[[nodiscard]] Result<ScheduleProposal> propose_schedule(std::span<const HourlyNeed> history,
                                                        const ScheduleTerms& terms);

}  // namespace qm::autoscaler::replicas
