#pragma once
#include "engine/nodes/capacities.hpp"
#include "engine/state.hpp"

namespace qm::placement {

[[nodiscard]] bool requests_instances(const std::vector<PodSet>& pod_sets);
/// Whether several pods share GPUs or instances of the node.
[[nodiscard]] bool is_shared(const NodeFacts& facts);
/// Pods of a set with MIG instances that fit, up to its count; 0 for any other set.
[[nodiscard]] std::int64_t instance_pods_that_fit(const NodeCapacity& capacity, const PodSet& set);

/// Allowed MIG layouts: those of the given mig-parted list, or without a list those of mig-manager.
class MigLayoutCatalog {
 public:
  MigLayoutCatalog(const State& state, const Capacities& capacities, const MigLayouts& layouts)
      : state_(state), capacities_(capacities), layouts_of_nodes_(layouts) {}

  /// Names of the layouts for nodes of the model.
  [[nodiscard]] std::vector<std::string> names(const mig::Model& model) const;
  /// Null if GPUs like the node's cannot have the layout.
  [[nodiscard]] const mig::NodeLayout* layout(const NodeFacts& facts, const std::string& name);
  /// The node's free capacity with the layout, if only hypothetically evicted workloads use its GPUs. Held
  /// capacity stays held.
  [[nodiscard]] NodeCapacity capacity(const NodeName& name, const mig::NodeLayout& layout,
                                      const HypotheticalState& hypothetical) const;
  /// In micro-dollars: instances destroyed and created, and GPUs with a mode change, which resets them. 0:
  /// the node has the layout.
  [[nodiscard]] std::int64_t cost(const NodeName& name, const mig::NodeLayout& to) const;

 private:
  const State& state_;
  const Capacities& capacities_;
  const MigLayouts& layouts_of_nodes_;
  std::map<std::tuple<std::string, std::string, std::int32_t>, std::optional<mig::NodeLayout>> layouts_;
};

}  // namespace qm::placement
