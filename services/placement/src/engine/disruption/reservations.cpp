// Capacity held by active proposals, repartitions and the defragmentation run.
#include "engine/disruption/reservations.hpp"

#include <algorithm>
#include <limits>

namespace qm::placement {

// A node that was launched for several workloads is available to each of them, and to a workload that precedes all.
std::vector<NodeName> Reservations::kept_nodes_for(const WorkloadUid& uid) const {
  std::vector<NodeName> out;
  const auto own = index_.kept_for.find(uid);
  if (own != index_.kept_for.end()) out.assign(own->second.begin(), own->second.end());
  const auto priority = tables_.workloads.find(uid)->spec.priority;
  const auto yields = [&](const WorkloadUid& other) {
    const Workload* workload = tables_.workloads.find(other);
    return workload == nullptr || workload->spec.priority < priority || !attempts_.awaits_nodes(other);
  };
  if (priority <= lowest_holder_.value_or(std::numeric_limits<std::int32_t>::min())) return out;
  for (const auto& [name, until] : index_.kept) {
    const auto& holders = tables_.nodes.find(name)->facts.launched_for;
    const bool listed = std::ranges::find(holders, uid) != holders.end();
    if (!listed && std::ranges::all_of(holders, yields)) out.push_back(name);
  }
  return out;
}

void Reservations::begin_pass() {
  lowest_holder_ = std::numeric_limits<std::int32_t>::max();
  for (const auto& [uid, nodes] : index_.kept_for) {
    if (const Workload* workload = tables_.workloads.find(uid))
      lowest_holder_ = std::min(*lowest_holder_, workload->spec.priority);
  }
}

std::vector<NodeName> Reservations::release_kept(const WorkloadUid& uid) {
  auto nodes = kept_nodes_for(uid);
  const HypotheticalState hypothetical{.attempts = {}, .holds = {}, .launched = {nodes.begin(), nodes.end()}};
  for (const NodeName& name : nodes) rows_.set_capacity(name, capacities_.capacity_of(name, hypothetical));
  return nodes;
}

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
  for (NodeName& name : kept_nodes_for(uid)) {
    hypothetical.launched.insert(name);
    nodes.insert(std::move(name));
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
