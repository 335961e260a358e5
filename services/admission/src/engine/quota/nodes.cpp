#include "quota/nodes.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace qm::admission {
namespace {

/// The level whose domains are single nodes.
constexpr const char* kHostname = "kubernetes.io/hostname";

bool is_on(const TopologyAssignments& nodes, const std::string& host) {
  return std::ranges::any_of(nodes, [&](const auto& one) {
    const auto& [levels, domains] = one.second;
    return !levels.empty() && levels.back() == kHostname &&
           std::ranges::any_of(domains, [&](const auto& domain) { return domain.values.back() == host; });
  });
}

/// Whether a flavor with a topology has the node.
bool is_counted(const Tables& tables, const NodeState& node) {
  return std::ranges::any_of(tables.flavors, [&](const auto& row) {
    const auto& [name, flavor] = row;
    return !flavor.topology.empty() && std::ranges::all_of(flavor.node_labels, [&](const auto& label) {
      const auto own = node.labels.find(label.first);
      return own != node.labels.end() && own->second == label.second;
    });
  });
}

}  // namespace

void Nodes::on(const NodesUpdated& c) {
  auto& rows = state_.tables.nodes;
  std::vector<std::pair<NodeName, NodeState>> gone, failed;
  for (const auto& [name, row] : rows) {
    const bool listed = c.complete ? c.nodes.contains(name) : std::ranges::find(c.gone, name) == c.gone.end();
    if (!listed) gone.emplace_back(name, row);
  }
  bool changed = std::ranges::any_of(gone, [&](const auto& one) { return is_counted(state_.tables, one.second); });
  for (const auto& [name, row] : gone) rows.erase(name);
  for (const auto& [name, node] : c.nodes) {
    const auto* known = rows.find(name);
    if (known != nullptr && *known == node) continue;
    if (node.failed && (known == nullptr || !known->failed)) failed.emplace_back(name, node);
    changed = changed || is_counted(state_.tables, node) || (known != nullptr && is_counted(state_.tables, *known));
    rows.insert(name, node);
  }
  if (!changed || state_.options.places) return;
  build_indexes(state_, state_.indexes);
  state_.reschedule_all();
  for (const auto& [name, node] : gone) evict_from(name, node, "is gone");
  for (const auto& [name, node] : failed) evict_from(name, node, "has failed");
}

void Nodes::evict_from(const NodeName& name, const NodeState& node, const char* why) {
  const auto label = node.labels.find(kHostname);
  if (label == node.labels.end()) return;
  std::vector<WorkloadUid> uids;
  for (const auto& [queue, holders] : state_.indexes.holders) {
    for (const auto& uid : holders) {
      if (is_on(state_.workload(*uid).nodes(), label->second)) uids.push_back(*uid);
    }
  }
  for (const auto& uid : uids) {
    transitions_.evict(uid, "NodeFailures", fmt::format("node {} of its topology assignment {}", name, why),
                       state_.now + state_.options.eviction_grace);
  }
}

}  // namespace qm::admission
