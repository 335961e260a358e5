#pragma once
#include "engine/gangs/pods.hpp"
#include "engine/state.hpp"

#include <optional>
#include <set>
#include <string>

namespace qm::placement {

/// MIG layouts of nodes as they are: by label, by advertised resources, and by the instances that pods hold.
class MigLayouts {
 public:
  MigLayouts(const State& state, const Pods& pods) : tables_(state.tables), index_(state.index), pods_(pods) {}

  /// MIG layout of the node's GPUs: by its label if the node advertises what that layout has, else by what it
  /// advertises. None if the GPUs cannot be partitioned or their number is unknown.
  [[nodiscard]] std::optional<mig::NodeLayout> layout_of(const NodeName& node) const;
  /// None if the node has no such label.
  [[nodiscard]] std::optional<PlannedLayout> planned_of(const NodeName& node) const;
  /// Sets the idle instances of the capacity, and limits its resources to them.
  void fill_instances(const NodeName& name, NodeCapacity& capacity, const std::set<AttemptId>& gone) const;
  /// Whether an order evicts work from the node now, or is stuck.
  [[nodiscard]] bool is_repartitioning(const NodeName& name) const;
  /// "MIG_CAPACITY_MISMATCH: ..." if the node has long advertised other devices than its labeled layout has;
  /// else empty.
  [[nodiscard]] std::string layout_finding(const NodeName& node) const;
  [[nodiscard]] relayout::Observed seen_for_layout(const NodeName& name, const Repartition& repartition) const;
  [[nodiscard]] NodeCapacity::Instances idle_instances(const NodeName& node,
                                                       const std::set<AttemptId>& gone = {}) const;

 private:
  const Tables& tables_;
  const Index& index_;
  const Pods& pods_;
};

}  // namespace qm::placement
