#pragma once
#include "engine/gangs/attempts.hpp"
#include "engine/gangs/pods.hpp"
#include "engine/mig/layout_orders.hpp"
#include "engine/mig/mig_layouts.hpp"
#include "engine/nodes/capacities.hpp"
#include "engine/nodes/device_adoption.hpp"
#include "engine/rows.hpp"
#include "engine/state.hpp"

#include <string>

namespace qm::placement {

/// Evaluates a node: whether it is usable, cordoned or lost, and what follows for its members.
class Nodes {
 public:
  Nodes(State& state, const Pods& pods, const Attempts& attempts, const MigLayouts& layouts,
        const Capacities& capacities, Rows& rows, LayoutOrders& orders, DeviceAdoption& adoption)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        index_(state.index),
        scratch_(state.scratch),
        pods_(pods),
        attempts_(attempts),
        layouts_(layouts),
        capacities_(capacities),
        rows_(rows),
        orders_(orders),
        adoption_(adoption) {}

  /// Evaluates the node and everything that it decides about its members.
  void evaluate_node(const NodeName& name);
  /// The node is gone: its members are lost.
  void remove_node(const NodeName& name);
  /// Updates state, reason and number of pods of the node.
  void publish_status(const NodeName& name);

 private:
  void keep_for_launch(const NodeName& name, Node& node) const;
  void override_verdicts(const NodeName& name);
  void lose_members(const NodeName& name, const std::string& message, std::int64_t grace_s,
                    const Node* not_ready = nullptr);
  void delete_lost(const std::string& pod_uid, std::int64_t grace_s);
  void evict_faulty(const NodeName& name, const HealthVerdict& health);

  State& state_;
  const Options& options_;
  Tables& tables_;
  Index& index_;
  Scratch& scratch_;
  const Pods& pods_;
  const Attempts& attempts_;
  const MigLayouts& layouts_;
  const Capacities& capacities_;
  Rows& rows_;
  LayoutOrders& orders_;
  DeviceAdoption& adoption_;
};

}  // namespace qm::placement
