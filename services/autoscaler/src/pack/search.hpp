#pragma once
#include "node.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace qm::autoscaler::pack {

/// How one greedy pass takes the pods, and what it prefers.
struct GreedyRule {
  enum class Order : std::uint8_t {
    kLargestFirst,    ///< by value of the requests
    kGpusFirst,       ///< by extended resources, CPU, memory
    kRepellingFirst,  ///< pods that repel their like first, then as kLargestFirst
  };
  Order order = Order::kLargestFirst;
  double slack = 0;  ///< part of the value of unused room that counts as gained
};

/// Takes the pods in an order; each goes where the cost rises least, which may be a new node.
///
/// Nodes with equal pods are handled as one, so equal pods cost little. At most some hundred different nodes stay open.
[[nodiscard]] Nodes greedy(Model& model, NodeEditor& editor, const GreedyRule& rule);

/// The rule of Karpenter: pods by CPU and memory, descending; each goes to the planned node with the fewest pods that
/// accepts it. Gives up, with an empty result, once the cost reaches `limit`: it only grows.
[[nodiscard]] Nodes fewest_pods_first(Model& model, NodeEditor& editor, double limit);

struct ImproveLimits {
  std::uint64_t pods = 0;  ///< removed and inserted again, over all steps
  double target = 0;       ///< ends once the cost is at most this
  std::function<bool()> stop;
  std::function<double()> progress;  ///< 0 to 1; the share of `pods` if empty
};

/// Improves the nodes by large-neighborhood search with simulated annealing: empties some nodes, removes some pods,
/// and inserts them where the cost rises least. Never returns a more expensive plan.
void improve(NodeEditor& editor, Nodes& nodes, const ImproveLimits& limits);

}  // namespace qm::autoscaler::pack
