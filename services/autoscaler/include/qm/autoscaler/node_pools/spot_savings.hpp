#pragma once
#include "qm/autoscaler/node_pools/summary.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// One entry of a history of spot prices: the price applies until the next one of its type and zone.
struct SpotPricePoint {
  std::string instance_type, zone;
  Instant from{};
  Money usd_hour;
};

/// What one instance type in one zone saved against its price on demand.
struct ColumnSaving {
  std::string instance_type, zone;
  Money mean;          ///< of an hour, weighted by time
  double percent = 0;  ///< below the price on demand; negative if spot capacity was more expensive
};

struct SpotSaving {
  std::vector<ColumnSaving> columns;             ///< the largest saving first, then by type and zone
  double mean_percent = 0;                       ///< of all columns; 0 without any
  std::vector<std::string> types_without_price;  ///< of the pool, which the history does not have
};

/// What spot capacity of a NodePool saved by a history of prices.
///
/// Counts   types and zones that the pool allows, from the first price of each until `until`. A pool without spot capacity has
///          no columns.
/// Threads  any; reads only its arguments.
/// Cost     O(history log history + types x zones).
[[nodiscard]] SpotSaving spot_saving_of(const PoolSummary& pool, std::span<const SpotPricePoint> history,
                                        Instant until);

}  // namespace qm::autoscaler
