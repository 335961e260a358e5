// Capacity held by active proposals, repartitions and the defragmentation run.
#include "engine/disruption/reservations.hpp"

#include <algorithm>

namespace qm::placement {

std::pair<HypotheticalState, std::set<NodeName>> Reservations::holds_available_to(const WorkloadUid& uid,
                                                                                  bool defrag) const {
  HypotheticalState hypothetical;
  hypothetical.defrag = defrag;
  std::set<NodeName> nodes = defrag ? index_.reservations.nodes(HoldSource::kDefragmentation) : std::set<NodeName>();
  const auto priority = tables_.workloads.find(uid)->spec.priority;
  const auto precedes = [&](const WorkloadUid& other) {
    const Workload* workload = tables_.workloads.find(other);
    return other != uid && workload != nullptr && workload->spec.priority >= priority;
  };
  for (const WorkloadUid& other : index_.with_proposal) {
    if (precedes(other)) continue;
    const Proposal& row = *tables_.proposals.find(other);
    hypothetical.holds.insert(other);
    for (const auto& victim : row.victims) hypothetical.holds.insert(victim.id.uid);
    nodes.merge(row.nodes());
  }
  for (const auto& [other, repartition] : index_.reservations.rows(HoldSource::kRepartition)) {
    if (precedes(other)) continue;
    hypothetical.holds.insert(other);
    nodes.insert(repartition.begin(), repartition.end());
  }
  // A node that was launched for several workloads is available to each of them, and to others only if it precedes all.
  for (const auto& [name, until] : index_.kept) {
    const auto& holders = tables_.nodes.find(name)->facts.launched_for;
    const auto prevails = [&](const WorkloadUid& other) { return precedes(other) && attempts_.awaits_nodes(other); };
    const bool own = std::ranges::find(holders, uid) != holders.end();
    if (!own && std::ranges::any_of(holders, prevails)) continue;
    hypothetical.launched.insert(name);
    nodes.insert(name);
  }
  std::erase_if(nodes, [this](const NodeName& name) { return !tables_.nodes.contains(name); });
  return {std::move(hypothetical), std::move(nodes)};
}

std::vector<NodeName> Reservations::release_holds(const WorkloadUid& uid, bool defrag) {
  const auto [hypothetical, nodes] = holds_available_to(uid, defrag);
  for (const NodeName& name : nodes) rows_.set_capacity(name, capacities_.capacity_of(name, hypothetical));
  return {nodes.begin(), nodes.end()};
}

void Reservations::restore_holds(const std::vector<NodeName>& nodes) {
  for (const NodeName& name : nodes) rows_.set_capacity(name, capacities_.capacity_of(name));
}

}  // namespace qm::placement
