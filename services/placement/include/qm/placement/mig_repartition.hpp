#pragma once
#include "qm/base/time.hpp"
#include "qm/model/ids.hpp"
#include "qm/placement/proposals.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace qm::placement {

/// Costs of the steps of a MIG repartition, in micro-dollars.
struct RepartitionCosts {
  std::int64_t destroy = 10'000, create = 10'000;  ///< of one instance
  std::int64_t enable = 100'000;                   ///< change of the MIG mode, which resets the GPU
};

/// Settings of MIG repartition for workloads that need instances and find none. An order itself evicts no pod; victims
/// of a proposal are in admission's budget of disruptions. The budget here limits how often GPUs are reset.
struct MigRepartitionOptions {
  bool on = false;
  std::set<std::string> pools;                ///< names of node pools that may be repartitioned; empty = all nodes
  Duration after = std::chrono::minutes(2);   ///< minimum time on the demand list: instances may become free
  Duration every = std::chrono::seconds(10);  ///< between two searches
  Duration pause = std::chrono::hours(1);     ///< a node keeps its layout for this time after an order has ended
  /// The instances are held for this time: the workload may have to get quota again.
  Duration held = std::chrono::minutes(15);
  Duration per = std::chrono::hours(1);  ///< period of the budget
  std::size_t most_orders = 4;           ///< budget of orders in that period
  std::size_t max_searches = 4;          ///< in one step
  std::size_t most_tried = 64;           ///< nodes in one search, the cheapest first
  RepartitionCosts costs;
};

/// The workload that a node is repartitioned for. Instances are held until it is placed, or no longer
/// pending.
struct RepartitionHold {
  WorkloadUid uid;
  std::vector<HeldCapacity> places;  ///< on the node
  bool waits = true;                 ///< false: nothing is held any more
  friend auto operator<=>(const RepartitionHold&, const RepartitionHold&) = default;
};

}  // namespace qm::placement
