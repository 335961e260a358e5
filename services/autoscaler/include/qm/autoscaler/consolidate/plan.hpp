#pragma once
#include "qm/autoscaler/consolidate/problem.hpp"
#include "qm/base/result.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qm::autoscaler::consolidate {

/// A pod and the running node that has room for it.
struct Move {
  std::string pod;
  std::size_t kind = 0, to = 0;  ///< indices of kind and node
  friend auto operator<=>(const Move&, const Move&) = default;
};

/// A node to launch, and the pods that it is for.
struct Launch {
  std::size_t pool = 0, type = 0, offering = 0;           ///< indices in the problem, its pool and its type
  pack::NodeTerm labels;                                  ///< of the node, each with one value
  std::vector<std::pair<std::string, std::size_t>> pods;  ///< name and kind
};

/// Nodes to remove, and places for all their pods.
struct Plan {
  std::vector<std::size_t> removed;  ///< indices of nodes, ascending
  std::vector<Move> moves;           ///< in an order in which each pod fits
  std::vector<Launch> launches;
  Money before, after;  ///< price per hour of the removed nodes, and of the launched ones
  Money cost;           ///< of lost work and restarts, at the price of the removed nodes
  Money value;          ///< (before - after) for the horizon, minus cost; positive
};

/// The removal with the highest value that the search finds; none if none pays.
///
/// Pays     the value is positive, and the price falls. With launches it falls by at least Rules::least_share.
/// Removed  single nodes, pairs of the most promising ones, and sets of up to Rules::most_nodes that grow while the value
///          does. No pool loses more nodes than its budgets allow; of the nodes with pods of one PodDisruptionBudget not
///          more than it allows evictions.
/// Places   pods go to running nodes by all rules of kube-scheduler, the fullest node first. The others go to new nodes of
///          the packing library, which may be fewer, as many, or more than those removed. A removed node is drained until
///          then, so its zone and its name count as domains of topology spread.
/// Never    a launch of the same type, zone and capacity type as a removed node; the replacement of a fresh node.
/// Spot     replaces spot if its hazard is observed and not higher, or if at least Rules::spot_types types are cheaper.
/// Order    equal problems give equal plans; ties go to the smaller index.
/// Threads  any; reads only its arguments.
/// Cost     Rules::most_trials trials of about 20 us for each pod that is moved; consolidate_bench.cpp.
/// Source   pkg/controllers/disruption of Karpenter 1.14, docs/adr/0061-consolidation.md.
[[nodiscard]] std::optional<Plan> plan(const Problem& problem);

/// The plan that removes exactly these nodes.
///
/// Fails    kFailedPrecondition: why they are not removed, with the node, the pod or the numbers.
[[nodiscard]] Result<Plan> plan_removal(const Problem& problem, std::span<const std::size_t> nodes);

/// Verifies a plan from the problem alone: holds and budgets, every pod once and where it fits, limits, the rules of
/// launches, and the sums.
///
/// Fails    kFailedPrecondition: the first violated rule, with the node or the pod.
[[nodiscard]] Status still_holds(const Problem& problem, const Plan& plan);

}  // namespace qm::autoscaler::consolidate
