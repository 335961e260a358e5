// Which attempts may be evicted or migrated, and placements without them.
#include "engine/disruption/victims.hpp"

#include "engine/disruption/hypothetical_evictions.hpp"
#include "engine/mig/mig_layout_catalog.hpp"
#include "qm/model/moves.hpp"

#include <algorithm>

namespace qm::placement {

bool Victims::may_preempt(const AttemptId& id, const Assignment& row, const WorkloadUid& to, bool instances) const {
  const Workload& pending = *tables_.workloads.find(to);
  const Workload* workload = tables_.workloads.find(id.uid);
  if (!options_.preemption.evicting) return false;
  if (!row.holds() || row.eviction || workload == nullptr || workload->attempt != id.attempt) return false;
  if (workload->phase != WorkloadPhase::kAdmitted || workload->spec.priority >= pending.spec.priority) return false;
  const QuotaFacts& theirs = workload->quota_facts;
  const bool own = theirs.queue == pending.quota_facts.queue;
  if (own ? !pending.quota_facts.own_queue
          : !pending.quota_facts.in_tree || theirs.quota_tree != pending.quota_facts.quota_tree)
    return false;
  if (theirs.min_runtime_until > scratch_.now) return false;
  if (!instances && requests_instances(row.pod_sets)) return false;
  return !is_refused(id.uid, to);
}

/// Admission recently refused this victim.
bool Victims::is_refused(const WorkloadUid& uid, const WorkloadUid& to) const {
  const Proposal* known = tables_.proposals.find(to);
  if (known == nullptr) return false;
  const auto kept = known->refused.find(uid);
  return kept != known->refused.end() && kept->second > scratch_.now;
}

bool Victims::may_migrate(const AttemptId& id, const Assignment& row, const WorkloadUid& preemptor) const {
  if (!options_.preemption.moving || !row.holds() || id.uid == preemptor || !may_defrag(id, row)) return false;
  const Workload& workload = *tables_.workloads.find(id.uid);
  if (workload.spec.priority > tables_.workloads.find(preemptor)->spec.priority) return false;
  if (workload.quota_facts.min_runtime_until > scratch_.now || is_refused(id.uid, preemptor)) return false;
  if (const Proposal* own = tables_.proposals.find(id.uid); own != nullptr && own->is_active()) return false;
  return std::ranges::none_of(row.pod_sets,
                              [](const PodSet& set) { return set.shape.gpu.mig_count > 0 || set.topology.exclusive; });
}

VictimOptions Victims::victim_options(const AttemptId& id, const Assignment& row, const WorkloadUid& to) const {
  return {may_preempt(id, row, to), may_migrate(id, row, to)};
}

bool Victims::may_defrag(const AttemptId& id, const Assignment& row) const {
  const Workload* workload = tables_.workloads.find(id.uid);
  if (workload == nullptr || workload->attempt != id.attempt || workload->phase != WorkloadPhase::kAdmitted)
    return false;
  if (row.eviction || workload->spec.labels.contains(kUnadmitted)) return false;
  if (stays_where_it_is(workload->spec.kind, workload->spec.labels)) return false;
  if (!std::ranges::all_of(row.members, [](const Member& m) { return m.live(); })) return false;
  if (is_elastic(row.pod_sets)) return false;  // it might run with fewer pods afterwards
  return allocator_.effective_rules(row.pod_sets, allocator_.rules_of(id, row.pod_sets)).empty();
}

std::set<AttemptId> Victims::remaining_victims(const Proposal& row) const {
  std::set<AttemptId> out;
  for (const auto& victim : row.victims) {
    const Assignment* there = tables_.assignments.find(victim.id);
    if (there != nullptr && there->holds()) out.insert(victim.id);
  }
  return out;
}

PlacementResult Victims::placed_without(const WorkloadUid& uid, const std::set<AttemptId>& gone,
                                        FreeCapacity& free_capacity) const {
  const Proposal* row = tables_.proposals.find(uid);
  return placed_without(uid, gone, free_capacity, row == nullptr ? NodeLayouts() : row->repartitions);
}

PlacementResult Victims::placed_without(const WorkloadUid& uid, const std::set<AttemptId>& gone,
                                        FreeCapacity& free_capacity, const NodeLayouts& repartitions) const {
  const HypotheticalState hypothetical{.attempts = gone, .holds = {uid}, .defrag = true};
  std::set<NodeName> nodes = index_.reservations.nodes(HoldSource::kDefragmentation);
  for (const AttemptId& id : gone) {
    for (const Member& member : tables_.assignments.find(id)->members) {
      if (member.live()) nodes.insert(member.node);
    }
  }
  if (const Proposal* row = tables_.proposals.find(uid)) nodes.merge(row->nodes());
  for (const NodeName& name : nodes) {
    if (const auto capacity = free_capacity.find(name); capacity != free_capacity.end())
      capacity->second = capacities_.capacity_of(name, hypothetical);
  }
  if (!apply_layouts(repartitions, hypothetical, free_capacity)) return {};
  return allocator_.place(allocator_.request_for(uid), free_capacity, index_.preference);
}

/// Hypothetically repartitions these nodes. False if one of them cannot be, or its GPUs are used by pods that
/// are not evicted hypothetically.
bool Victims::apply_layouts(const NodeLayouts& repartitions, const HypotheticalState& hypothetical,
                            FreeCapacity& free_capacity) const {
  if (!repartitions.empty() && !options_.mig_repartition.on) return false;
  MigLayoutCatalog offers(state_, capacities_, layouts_);
  for (const auto& [name, layout] : repartitions) {
    const Node* node = tables_.nodes.find(name);
    if (node == nullptr || !search_.why_not(name, hypothetical).empty()) return false;
    const auto* made = offers.layout(node->facts, layout);
    if (made == nullptr) return false;
    free_capacity[name] = offers.capacity(name, *made, hypothetical);
  }
  return true;
}

PlacementResult Victims::placed_with_layouts(const WorkloadUid& uid, const std::set<AttemptId>& gone,
                                             const NodeLayouts& repartitions) const {
  FreeCapacity free_capacity = index_.free_capacity;
  return placed_without(uid, gone, free_capacity, repartitions);
}

std::optional<std::vector<HeldCapacity>> Victims::migration_target(const WorkloadUid& mover,
                                                                   const std::vector<HeldCapacity>& planned,
                                                                   FreeCapacity& free_capacity) const {
  FreeCapacity there;
  for (const HeldCapacity& place : planned) {
    if (const auto capacity = free_capacity.find(place.node); capacity != free_capacity.end()) there.insert(*capacity);
  }
  auto placed = allocator_.place(allocator_.request_for(mover), there, index_.preference, nullptr, ResultDetail::kPlan);
  if (placed.plan) {
    for (auto& [name, capacity] : there) free_capacity[name] = std::move(capacity);
  } else {
    placed =
        allocator_.place(allocator_.request_for(mover), free_capacity, index_.preference, nullptr, ResultDetail::kPlan);
  }
  if (!placed.plan) return std::nullopt;
  return places_of(placed.plan->members);
}

bool Victims::migrations_fit(const Proposal& row) const {
  const auto gone = remaining_victims(row);
  return std::ranges::all_of(row.victims, [&](const Proposal::Victim& victim) {
    if (victim.to.empty()) return true;
    FreeCapacity there;
    for (const HeldCapacity& place : victim.to) {
      if (!tables_.nodes.contains(place.node)) return false;
      const HypotheticalState hypothetical{.attempts = gone, .holds = {victim.id.uid}, .defrag = true};
      there.emplace(place.node, capacities_.capacity_of(place.node, hypothetical));
    }
    return allocator_
        .place(allocator_.request_for(victim.id.uid), there, index_.preference, nullptr, ResultDetail::kPlan)
        .plan.has_value();
  });
}

PlacementResult Victims::place_at(const WorkloadUid& uid, const std::vector<HeldCapacity>& places) const {
  FreeCapacity there;
  for (const HeldCapacity& place : places) {
    if (tables_.nodes.contains(place.node))
      there.emplace(place.node, capacities_.capacity_of(place.node, {.attempts = {}, .holds = {uid}}));
  }
  return allocator_.place(allocator_.request_for(uid), there, index_.preference);
}

}  // namespace qm::placement
