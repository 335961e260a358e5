// Nodes, and the assignments of workloads to them, as rows and inputs.
#include "qm/wire/model.hpp"
#include "rows/rows.hpp"

namespace qm::admission {

namespace state = quartermaster::admission;

void add_nodes(const TopologyAssignments& nodes, TopologyAssignmentRows& rows) {
  for (const auto& [set, assignment] : nodes) {
    auto& row = *rows.Add();
    row.set_pod_set(set);
    for (const auto& level : assignment.levels) row.add_levels(level);
    for (const auto& domain : assignment.domains) {
      auto& out = *row.add_domains();
      for (const auto& value : domain.values) out.add_values(value);
      out.set_count(domain.count);
    }
  }
}

TopologyAssignments nodes_from(const TopologyAssignmentRows& rows) {
  TopologyAssignments out;
  for (const auto& row : rows) {
    auto& assignment = out[row.pod_set()];
    assignment.levels.assign(row.levels().begin(), row.levels().end());
    for (const auto& domain : row.domains())
      assignment.domains.push_back({{domain.values().begin(), domain.values().end()}, domain.count()});
  }
  return out;
}

state::NodeRow to_row(const NodeState& node) {
  state::NodeRow row;
  row.mutable_labels()->insert(node.labels.begin(), node.labels.end());
  for (const auto& taint : node.taints) *row.add_taints() = wire::to_pb(taint);
  row.mutable_allocatable()->insert(node.allocatable.begin(), node.allocatable.end());
  row.mutable_used()->insert(node.used.begin(), node.used.end());
  row.set_ready(node.ready);
  row.set_schedulable(node.schedulable);
  row.set_failed(node.failed);
  return row;
}

NodeState from_row(const state::NodeRow& row) {
  NodeState node;
  node.labels = {row.labels().begin(), row.labels().end()};
  for (const auto& taint : row.taints()) node.taints.push_back(wire::from_pb(taint));
  node.allocatable = {row.allocatable().begin(), row.allocatable().end()};
  node.used = {row.used().begin(), row.used().end()};
  node.ready = row.ready();
  node.schedulable = row.schedulable();
  node.failed = row.failed();
  return node;
}

state::NodesInput to_input(const NodesUpdated& updated) {
  state::NodesInput input;
  for (const auto& [name, node] : updated.nodes) (*input.mutable_nodes())[name.value()] = to_row(node);
  for (const auto& name : updated.gone) input.add_gone(name.value());
  input.set_complete(updated.complete);
  return input;
}

NodesUpdated from_input(const state::NodesInput& input) {
  NodesUpdated out;
  for (const auto& [name, row] : input.nodes()) out.nodes.emplace(NodeName(name), from_row(row));
  for (const auto& name : input.gone()) out.gone.emplace_back(name);
  out.complete = input.complete();
  return out;
}

}  // namespace qm::admission
