#pragma once
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace qm::autoscaler::headroom {

/// Nodes of one shape that came into use at once for one workload (positive), or that became free (negative).
struct Change {
  Instant at{};
  std::int64_t nodes = 0;
  friend auto operator<=>(const Change&, const Change&) = default;
};

/// A kind of node with its history.
struct Shape {
  std::string name;
  std::int64_t nano_usd_hour = 0;                                ///< of one node
  Duration boot{};                                               ///< from launch to ready
  std::int64_t most = std::numeric_limits<std::int64_t>::max();  ///< free nodes at most
  std::vector<Change> changes;                                   ///< by time
};

/// How many free nodes to keep, so that at least `quantile_ppm` of the arrivals are pending for at most `wait`.
struct Problem {
  Duration wait{};
  std::int64_t quantile_ppm = 950'000;  ///< parts per million, 1 to 999,999
  Instant from{}, until{};              ///< the arrivals of [from, until) count
  std::vector<Shape> shapes;
};

/// Bands of the largest recent burst: 0 without a burst, b with one of 2^(b-1) to 2^b - 1 nodes. Each is divided by the
/// time since the last arrival, at kQuiet.
inline constexpr std::size_t kBurstBands = 24;
inline constexpr std::array<Duration, 2> kQuiet{std::chrono::minutes(30), std::chrono::hours(2)};
inline constexpr std::size_t kBands = kBurstBands * (kQuiet.size() + 1);
/// A burst is recent for this time.
inline constexpr Duration kRecent = std::chrono::hours(4);
/// Older arrivals do not count.
inline constexpr Duration kMemory = std::chrono::hours(24 * 28);
/// From one plan to the next; the first one is as long after the start of the history.
inline constexpr Duration kPlanEvery = std::chrono::hours(6);
/// The free nodes to keep, by band.
using Levels = std::array<std::int64_t, kBands>;

struct Plan {
  std::vector<Levels> levels;              ///< by shape
  std::int64_t arrivals = 0, covered = 0;  ///< of the history; those that these levels would have covered
  double usd = 0;                          ///< price of the levels over the history
  double bound = 0;                        ///< no levels that cover the quantile of this history cost less
};

/// The time before an arrival in which no launch can have completed for a workload that may be pending for `wait`.
[[nodiscard]] constexpr Duration lead_time(Duration boot, Duration wait) { return std::max(boot - wait, Duration{1}); }

/// The nodes that an arrival needed at once: those that came into use in the time before it in which no launch can
/// have completed, less those that became free in between.
struct Need {
  Instant at{};
  std::int64_t nodes = 0;
  friend auto operator<=>(const Need&, const Need&) = default;
};

/// The needs of all arrivals of a shape, for a workload that may be pending for `wait`.
///
/// A level kept since one lead_time() before the arrival covers it if it is at least its need: this is
/// the base-stock rule with backorders. A released node helps only where nodes are missing, because others are terminated.
/// Cost     arrivals x changes in one lead time.
/// Source   Scarf 1960; the recursion of Lindley 1952.
[[nodiscard]] std::vector<Need> needs_of(const Shape& shape, Duration wait);
/// The largest need among the arrivals of (now - kRecent, now]. Cost: those arrivals.
[[nodiscard]] std::int64_t recent_burst(const std::vector<Need>& needs, Instant now);
/// The time since the last arrival; the longest possible one without an arrival. Cost: O(log n).
[[nodiscard]] Duration quiet_time(const std::vector<Need>& needs, Instant now);
/// Band of a largest recent burst, `quiet` after the last arrival.
[[nodiscard]] std::size_t band_of(std::int64_t burst, Duration quiet);

/// The free nodes to keep now: by the band of now, and by that of one lead time ago, which decided for the arrivals of
/// now. An arrival that lowers the level leaves free nodes to the rest of its burst. Cost: recent_burst.
[[nodiscard]] std::int64_t level_at(const Levels& levels, const std::vector<Need>& needs, Instant now, Duration lead);

/// Levels that cover the quantile of the history at the lowest price found.
///
/// Each band of each shape is a choice of its own: a higher level covers more arrivals, and costs for the time in
/// the band. The steps of the concave hull of this trade are taken by arrivals covered per dollar, until the quantile
/// is reached. The price exceeds the bound by less than one step.
///
/// Order    ties by shape, then band. Equal results on every IEEE machine.
/// Fails    kInvalid with the field: a quantile or price out of range, changes not in order, or no boot time.
/// Short    if `most` allows less than the quantile, the levels cover what they can; see `covered`.
/// Threads  any; reads only its arguments.
/// Cost     O(n log n) for n changes, and needs_of; headroom_bench.cpp.
/// Source   the multiple-choice knapsack (Sinha and Zoltners 1979).
[[nodiscard]] Result<Plan> plan(const Problem& problem);
/// Checks a plan without its search: no level above `most`, coverage and price as stated, and the bound not above the
/// price where the quantile is covered.
[[nodiscard]] Status still_holds(const Problem& problem, const Plan& plan);

/// Arrivals, and those that were pending for at most the wait.
struct Attained {
  std::int64_t arrivals = 0, covered = 0;
  friend auto operator<=>(const Attained&, const Attained&) = default;
};
/// The quantile to plan for next, after what was attained with `target_ppm`: history and future differ, so the
/// quantile of the history is corrected until that of the future is attained.
///
/// Formula  target + (quantile + margin - attained) x arrivals x 20 / known, between 0.6 and half the way from the
///          quantile to 1. The margin is a third of what the quantile allows to miss, at most 1.5 points.
/// `known`  the arrivals of the history.
[[nodiscard]] std::int64_t next_target_ppm(std::int64_t target_ppm, std::int64_t quantile_ppm, Attained attained,
                                           std::int64_t known);

}  // namespace qm::autoscaler::headroom
