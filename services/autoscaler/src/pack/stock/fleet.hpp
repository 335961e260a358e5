#pragma once
#include "node.hpp"
#include "qm/base/result.hpp"
#include "stock/scheduler.hpp"

#include <functional>

namespace qm::autoscaler::pack {

/// One offer for each node, of its cost and with room for its pods.
[[nodiscard]] Fleet fleet_of(const Model& model, const Nodes& nodes);

/// The part of the pods that the stock scheduler binds, 0 to 1: the mean of some runs.
[[nodiscard]] double stock_share(StockScheduler& scheduler, const Fleet& fleet);

/// Nodes that suffice for the stock scheduler, and a run that binds every pod in the order of the input and uses each node.
struct StockFleet {
  Fleet fleet;
  StockScheduler::Outcome outcome;
};

/// Looks for nodes at a low cost on which the stock scheduler binds all pods in one run, and nearly all in the mean.
///
/// The search begins with the cheapest of `starts` after nodes for unbound pods are added.
/// `stop` ends the search for cheaper nodes; without it the number of runs depends on the problem alone.
/// `progress` is the part of its time that has passed, 0 to 1.
/// Fails    kFailedPrecondition: pods remain unbound however many nodes are added.
[[nodiscard]] Result<StockFleet> stock_fleet(const Problem& problem, Model& model, StockScheduler& scheduler,
                                             const std::vector<Fleet>& starts, const std::function<bool()>& stop,
                                             const std::function<double()>& progress);

}  // namespace qm::autoscaler::pack
