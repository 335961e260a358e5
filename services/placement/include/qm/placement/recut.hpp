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

/// Whether and how GPUs are cut anew by MIG for a workload that wants instances and finds none.
struct Recutting {
  bool on = false;
  std::set<std::string> pools;                ///< names of node pools whose nodes may be cut; empty = all nodes
  Duration after = std::chrono::minutes(2);   ///< on the demand list for so long: until then instances may come free
  Duration every = std::chrono::seconds(10);  ///< between two searches
  Duration pause = std::chrono::hours(1);     ///< a node keeps its layout for so long after an order has ended
  Duration held =
      std::chrono::minutes(15);          ///< the instances are nobody else's for so long: quota may have to come back
  Duration per = std::chrono::hours(1);  ///< that the budget is for
  std::size_t most_orders = 4;           ///< in that time
  std::size_t most_searches = 4;         ///< in one step
  std::size_t most_tried = 64;           ///< nodes in one search, the cheapest first
  mig::StepCosts costs{10'000, 10'000, 100'000};  ///< in micro-dollars, as plan::Terms has them
};

/// For whom a node is cut: the instances are kept for it until it has its place, or waits no more.
struct CutFor {
  WorkloadUid uid;
  std::vector<HeldPlace> places;  ///< on the node
  bool waits = true;              ///< false: nothing is kept any more
  friend auto operator<=>(const CutFor&, const CutFor&) = default;
};

}  // namespace qm::placement
