#pragma once
#include "qm/autoscaler/pack/problem.hpp"
#include "qm/base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler::pack {

/// A node to launch, and the pods that it is for.
struct PlannedNode {
  std::size_t type = 0;                       ///< index in Problem::types
  std::size_t offering = 0;                   ///< index in the offerings of the type
  std::vector<NodeRequirement> requirements;  ///< labels of the node, each with one value
  std::vector<std::size_t> pods;              ///< indices in Problem::pods, ascending
};

/// A pod that no launched node could hold.
struct Unplaced {
  std::size_t pod = 0;
  std::string reason;
};

/// How a plan suits kube-scheduler without nominated nodes, in simulated runs.
struct StockFit {
  double share = 0;                                 ///< of the placed pods: bound, 0 to 1
  double nominated_price = 0, nominated_share = 0;  ///< of the plan for nominated nodes
};

struct Plan {
  std::vector<PlannedNode> nodes;
  std::vector<Unplaced> unplaced;  ///< ascending by pod
  double price = 0;                ///< sum of the offerings' prices
  double cost = 0;                 ///< price, plus the node price for each node
  double bound = 0;                ///< no plan for the placed pods costs less
  std::optional<StockFit> stock;   ///< with Effort::binding = kStock
};

/// How the pods get to their planned nodes.
enum class Binding : std::uint8_t {
  kNominated,  ///< each pod gets its planned node as status.nominatedNodeName before kube-scheduler sees it
  kStock,      ///< kube-scheduler places them by its default scores
};

struct Effort {
  double node_price = 0;  ///< added to the cost for each node, in currency units per hour
  /// True once the search should end. Without it the amount of work depends only on the problem, and so does the plan.
  std::function<bool()> stop;
  /// The share of the time that has passed, 0 to 1; it only guides the search. Required with `stop`.
  std::function<double()> progress;
  /// With kStock the plan is a simulated run of kube-scheduler that binds all pods in the order of the input. There are
  /// so many nodes that other runs bind 99.75 % in the mean.
  Binding binding = Binding::kNominated;
};

/// Chooses instances for the pending pods at the lowest cost that it finds, and proves a lower bound.
///
/// For nominated nodes, the plan never costs more than one by the rule of Karpenter. That rule puts each pod on the planned node with the
/// fewest pods, and chooses the instance type at the end.
///
/// Limits   an instance type of which one node is above a limit of the NodePool is not launched.
/// Order    ties go to the smaller index of pod and type; equal problems give equal plans without Effort::stop.
/// Threads  any; reads only its arguments.
/// Fails    kInvalid: a pod has a pod affinity within hosts, or a constraint over a key other than host and zone.
///          kInvalid: more than 12 resources are requested, or the offerings have more than 64 zones.
///          kFailedPrecondition: the plan would exceed a limit of the NodePool, or kube-scheduler leaves pods unbound
///          however many nodes there are.
/// Cost     about 20 us a pod; autoscaler_bench.cpp. With Effort::stop until it returns true, or until cost and bound meet.
/// Source   docs/adr/0053-price-optimal-packing.md
[[nodiscard]] Result<Plan> pack(const Problem& problem, const Effort& effort = {});

/// Verifies a plan from the problem alone: every pod once, capacity, offerings, node and pod constraints, and the sums.
///
/// Zone spread is judged by placing the pods in their order, each in the zone of its node.
/// Fails    kFailedPrecondition: the first violated constraint, with the pod and the node.
/// Cost     linear in pods, times the number of constraints of a pod.
[[nodiscard]] Status still_holds(const Problem& problem, const Plan& plan, double node_price = 0);

}  // namespace qm::autoscaler::pack
