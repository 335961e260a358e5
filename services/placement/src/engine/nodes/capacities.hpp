#pragma once
#include "engine/gangs/pods.hpp"
#include "engine/mig/mig_layouts.hpp"
#include "engine/state.hpp"

#include <string>
#include <vector>

namespace qm::placement {

/// Whether the verdict cordons the node. If GPUs are allocated as MIG instances, a faulty GPU cannot be excluded
/// alone.
[[nodiscard]] bool cordons(const Node* node, const std::optional<HealthVerdict>& verdict);

/// The free capacity of a node, computed from the rows. Nothing is stored here.
///
/// Cost     members and pods of the node.
class Capacities {
 public:
  Capacities(const State& state, const Pods& pods, const MigLayouts& layouts)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        index_(state.index),
        pods_(pods),
        layouts_(layouts) {}

  /// Causes for which placement cordons the node, separated by commas; empty if there is none.
  [[nodiscard]] std::string own_causes(const NodeName& name) const;
  /// Use of each device. Members use their planned or observed devices. Other pods use the devices from the
  /// kubelet, else those that placement bound them to. Otherwise they block the highest idle devices, since our
  /// plans start with the lowest.
  [[nodiscard]] std::vector<DeviceUse> use_of(const NodeName& name, const HypotheticalState& hypothetical) const;
  /// Free capacity of a node that exists, after the hypothetical evictions.
  [[nodiscard]] NodeCapacity capacity_of(const NodeName& name, const HypotheticalState& hypothetical) const;
  /// Free capacity of a node that exists, after the hypothetical evictions.
  [[nodiscard]] NodeCapacity capacity_of(const NodeName& name) const { return capacity_of(name, {}); }
  /// When the member counts as lost. Kubernetes deletes a pod after the node has not been ready for as long as
  /// the pod tolerates. The end of a pod that is being deleted cannot be confirmed there.
  [[nodiscard]] Instant lost_at(const Node& node, const Member& member) const;
  /// When the next member of the node is lost; Instant::max() = never.
  [[nodiscard]] Instant next_loss(const NodeName& name) const;
  [[nodiscard]] std::vector<DeviceUse> devices_of(const NodeName& node) const;

 private:
  [[nodiscard]] std::string cordon_text(const NodeName& name) const;

  const State& state_;
  const Options& options_;
  const Tables& tables_;
  const Index& index_;
  const Pods& pods_;
  const MigLayouts& layouts_;
};

}  // namespace qm::placement
