#pragma once
#include "qm/base/time.hpp"
#include "qm/model/ids.hpp"
#include "qm/placement/mig/reslice.hpp"
#include "qm/placement/proposals.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace qm::placement {

/// Settings of MIG repartition for workloads that need instances and find none.
struct Recutting {
  bool on = false;
  std::set<std::string> pools;                ///< names of node pools that may be repartitioned; empty = all nodes
  Duration after = std::chrono::minutes(2);   ///< minimum time on the demand list: instances may become free
  Duration every = std::chrono::seconds(10);  ///< between two searches
  Duration pause = std::chrono::hours(1);     ///< a node keeps its layout for this time after an order has ended
  /// The instances are held for this time: the workload may have to get quota again.
  Duration held = std::chrono::minutes(15);
  Duration per = std::chrono::hours(1);           ///< period of the budget
  std::size_t most_orders = 4;                    ///< budget of orders in that period
  std::size_t most_searches = 4;                  ///< in one step
  std::size_t most_tried = 64;                    ///< nodes in one search, the cheapest first
  mig::StepCosts costs{10'000, 10'000, 100'000};  ///< in micro-dollars, as in plan::Terms
};

/// The workload that a node is repartitioned for. Instances are held until it is placed, or no longer
/// pending.
struct CutFor {
  WorkloadUid uid;
  std::vector<HeldPlace> places;  ///< on the node
  bool waits = true;              ///< false: nothing is held any more
  friend auto operator<=>(const CutFor&, const CutFor&) = default;
};

}  // namespace qm::placement
