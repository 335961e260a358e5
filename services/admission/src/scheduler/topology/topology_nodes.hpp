#pragma once
#include "qm/admission/kueue/names.hpp"
#include "qm/admission/kueue/topologies.hpp"
#include "qm/admission/workload.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace qm::admission {

/// Translates topologies, nodes and assignments between rows and the scheduling rules. If no flavor names a Topology
/// it does nothing: then the quota trees have no nodes.
///
/// Threads  one.
/// Cost     construction: as kueue::Topologies::add, for each flavor with a topology.
class TopologyNodes {
 public:
  TopologyNodes() = default;
  /// The rows have to exist until build().
  TopologyNodes(const std::map<std::string, Topology>& topologies, const std::map<NodeName, NodeState>& nodes)
      : topologies_(&topologies), nodes_(&nodes) {}

  /// Builds the nodes of the flavors, which get numbers in `names`.
  void build(const std::map<FlavorName, Flavor>& flavors, kueue::Names& names);
  [[nodiscard]] bool used() const { return rules_ != nullptr; }
  /// What the quota trees share; null if it is not used.
  [[nodiscard]] const std::shared_ptr<kueue::Topologies>& rules() const { return rules_; }

  /// Whether each flavor that the queue offers has a topology: then all of its pods are assigned to nodes.
  [[nodiscard]] bool covers(const kueue::QueueRules& rules) const;
  /// Adds to a pod set of the rules what decides its nodes.
  void add_request(const PodSet& set, kueue::PodSet& to) const;
  /// Why the pods cannot use the flavor regardless of nodes: they request a topology, and it has none, or one
  /// that does not exist.
  [[nodiscard]] std::optional<kueue::Refusal> refusal(const kueue::PodSet& set, const Flavor& flavor,
                                                      kueue::Flavor id) const;
  /// Equal for pod sets that get equal nodes, apart from their shape.
  [[nodiscard]] std::string text_of(const PodSet& set) const;

  /// What the pods of a workload use of its nodes.
  [[nodiscard]] kueue::LeafUses uses_of(const Spec& spec, const Flavors& chosen, const TopologyAssignments& nodes,
                                        const kueue::Names& names) const;
  /// The nodes of an assignment by the rules, for its row.
  [[nodiscard]] static TopologyAssignments assignments_of(const std::vector<kueue::PodSet>& sets,
                                                          const std::vector<kueue::Placed>& placed);

  /// By flavor, domain and resource.
  using UsageOfNodes = std::map<kueue::Flavor, std::map<std::string, NodeAmounts>>;
  [[nodiscard]] UsageOfNodes usage() const;

 private:
  [[nodiscard]] topology::Requests requests_of(const PodShape& shape) const;

  const std::map<std::string, Topology>* topologies_ = nullptr;  ///< until build()
  const std::map<NodeName, NodeState>* nodes_ = nullptr;
  std::shared_ptr<kueue::Topologies> rules_;
  std::vector<kueue::Flavor> flavors_;  ///< with a topology that exists
};

}  // namespace qm::admission
