// The needs of arrivals: Lindley's recursion over one lead time.
#include "qm/autoscaler/headroom/headroom.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

namespace qm::autoscaler::headroom {

std::vector<Need> needs_of(const Shape& shape, Duration wait) {
  const Duration lead = lead_time(shape.boot, wait);
  std::vector<Need> out;
  std::size_t first = 0;
  for (std::size_t i = 0; i < shape.changes.size(); ++i) {
    const Change& arrival = shape.changes[i];
    while (shape.changes[first].at <= arrival.at - lead) ++first;
    if (arrival.nodes <= 0) continue;
    std::int64_t missing = 0;
    for (std::size_t j = first; j <= i; ++j) missing = std::max<std::int64_t>(0, missing + shape.changes[j].nodes);
    out.push_back({arrival.at, missing});
  }
  return out;
}

std::int64_t recent_burst(const std::vector<Need>& needs, Instant now) {
  std::int64_t most = 0;
  auto at = std::ranges::upper_bound(needs, now, {}, &Need::at);
  while (at != needs.begin() && (--at)->at > now - kRecent) most = std::max(most, at->nodes);
  return most;
}

Duration quiet_time(const std::vector<Need>& needs, Instant now) {
  const auto at = std::ranges::upper_bound(needs, now, {}, &Need::at);
  return at == needs.begin() ? Duration::max() : now - std::prev(at)->at;
}

std::size_t band_of(std::int64_t burst, Duration quiet) {
  const auto width =
      static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(0, burst))));
  const auto passed = static_cast<std::size_t>(std::ranges::count_if(kQuiet, [&](Duration d) { return d <= quiet; }));
  return passed * kBurstBands + std::min(width, kBurstBands - 1);
}

std::int64_t level_at(const Levels& levels, const std::vector<Need>& needs, Instant now, Duration lead) {
  const auto at = [&](Instant t) { return levels[band_of(recent_burst(needs, t), quiet_time(needs, t))]; };
  return std::max(at(now), at(now - lead));
}

std::int64_t next_target_ppm(std::int64_t target_ppm, std::int64_t quantile_ppm, Attained attained,
                             std::int64_t known) {
  constexpr std::int64_t kOne = 1'000'000, kLeast = 600'000, kGain = 20, kShare = 3, kMost = 15'000, kFew = 10;
  const std::int64_t wanted = quantile_ppm + std::min((kOne - quantile_ppm) / kShare, kMost);
  const std::int64_t missed = wanted * attained.arrivals - kOne * attained.covered;
  const std::int64_t next = target_ppm + missed / std::max(known / kGain, kFew);
  return std::clamp(next, std::min(kLeast, quantile_ppm), (kOne + quantile_ppm) / 2);
}

}  // namespace qm::autoscaler::headroom
