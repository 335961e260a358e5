#pragma once
#include "launch/fit.hpp"
#include "launch/pod_needs.hpp"
#include "state.hpp"

#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// What decides the labels of a node that does not exist yet. An empty zone: the cloud selects it.
struct NodeSide {
  const Pool& pool;
  const Labels& labels;  ///< chosen for the claim, in addition to the pool's
  const InstanceType& type;
  const std::string& zone;
  Market market = Market::kOnDemand;
  bool reserved = false;  ///< it uses a capacity reservation
  [[nodiscard]] std::string_view capacity_type() const { return reserved ? "reserved" : name_of(market); }
};

/// Nodes that a launch would add: their labels, their capacity without DaemonSets, and the pods that they accept.
///
/// Cost     accepts: by the requirements of the pod; empty: by the DaemonSets.
class NewNodes {
 public:
  explicit NewNodes(const State& state) : state_(state), tables_(state.tables) {}

  [[nodiscard]] const PodNeeds& needs(const PodSet& set) const { return state_.needs.of(set); }
  /// The pool and the type of the claim exist.
  [[nodiscard]] NodeSide side_of(const Claim& claim) const;
  /// Whether a pod of the set may run on the node, by taints, GPU model, node selector and required node affinity.
  [[nodiscard]] bool accepts(const PodSet& set, const NodeSide& node) const;
  /// The capacity of the node without the requests of exactly those DaemonSets that run on it.
  [[nodiscard]] FreeCapacity empty(const NodeSide& node) const;

  /// The values of labels that the pool's rules leave open, for instances with these pods: a value that all pods
  /// accept, the lowest. None if there is no such value: no instance of the pool fits them together.
  [[nodiscard]] std::optional<Labels> chosen_labels(const Pool& pool, const std::vector<PodSet>& sets) const;
  /// A label that the pool's rules leave open and of which the pod sets select several values, each allowed alone;
  /// empty = none.
  [[nodiscard]] std::string contested_label(const Pool& pool, const std::vector<PodSet>& sets) const;
  /// The zones that the pods name.
  [[nodiscard]] std::vector<std::string> named_zones(const std::vector<PodSet>& sets) const;

 private:
  const State& state_;
  const Tables& tables_;
};

}  // namespace qm::autoscaler
