#include "qm/autoscaler/node_pools/spot_savings.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace qm::autoscaler {
namespace {

__extension__ typedef __int128 Wide;

/// The mean of the prices, weighted by the time until the next one; none if no price has a duration.
std::optional<Money> mean_of(const std::map<Instant, Money>& prices, Instant until) {
  Wide weighted = 0;
  std::int64_t total = 0;
  for (auto at = prices.begin(); at != prices.end() && at->first < until; ++at) {
    const auto next = std::next(at);
    const Instant end = next == prices.end() ? until : std::min(next->first, until);
    const std::int64_t length = (end - at->first).count();
    weighted += Wide{at->second.nano()} * length;
    total += length;
  }
  if (total == 0) return std::nullopt;
  return Money::nano(static_cast<std::int64_t>(weighted / total));
}

}  // namespace

SpotSaving spot_saving_of(const PoolSummary& pool, std::span<const SpotPricePoint> history, Instant until) {
  SpotSaving out;
  if (!pool.spot) return out;
  std::map<std::pair<std::string, std::string>, std::map<Instant, Money>> prices;
  for (const auto& point : history) {
    const bool type = std::ranges::binary_search(pool.instance_types, point.instance_type);
    const bool zone = pool.zones.empty() || std::ranges::find(pool.zones, point.zone) != pool.zones.end();
    if (type && zone) prices[{point.instance_type, point.zone}][point.from] = point.usd_hour;
  }
  std::set<std::string> without(pool.instance_types.begin(), pool.instance_types.end());
  for (const auto& [column, points] : prices) {
    const auto& [type, zone] = column;
    const auto mean = mean_of(points, until);
    const auto listed = Money::parse_usd(catalog::find(type)->usd_hour);
    if (!mean || !listed || listed->nano() == 0) continue;
    without.erase(type);
    constexpr double kPercent = 100;
    const double share = static_cast<double>(mean->nano()) / static_cast<double>(listed->nano());
    out.columns.push_back({type, zone, *mean, kPercent * (1 - share)});
    out.mean_percent += out.columns.back().percent;
  }
  if (!out.columns.empty()) out.mean_percent /= static_cast<double>(out.columns.size());
  std::ranges::sort(out.columns, {},
                    [](const ColumnSaving& c) { return std::tuple(-c.percent, c.instance_type, c.zone); });
  out.types_without_price.assign(without.begin(), without.end());
  return out;
}

}  // namespace qm::autoscaler
