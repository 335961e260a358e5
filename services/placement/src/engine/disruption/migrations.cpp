// Migration of victims. The target of a victim is held from the first publication on, in the row of the
// preemptor. After admission's answer it is held in a row of the victim, for its next attempt (defrag_executor.cpp). So
// the victim may have the same priority as the preemptor: it loses time, but no capacity.
#include "engine/disruption/preemption_problem.hpp"

#include <algorithm>

namespace qm::placement {

bool Engine::may_migrate(const AttemptId& id, const Assignment& row, const WorkloadUid& preemptor) const {
  if (!options_.preemption.moving || !row.holds() || id.uid == preemptor || !may_defrag(id, row)) return false;
  const Workload& workload = *tables_.workloads.find(id.uid);
  if (workload.spec.priority > tables_.workloads.find(preemptor)->spec.priority) return false;
  if (workload.quota_facts.min_runtime_until > scratch_.now || is_refused(id.uid, preemptor)) return false;
  if (const Proposal* own = tables_.proposals.find(id.uid); own != nullptr && own->is_active()) return false;
  return std::ranges::none_of(row.pod_sets,
                              [](const PodSet& set) { return set.shape.gpu.mig_count > 0 || set.topology.exclusive; });
}

Engine::VictimOptions Engine::victim_options(const AttemptId& id, const Assignment& row, const WorkloadUid& to) const {
  return {may_preempt(id, row, to), may_migrate(id, row, to)};
}

/// The placement of the migrated workload on the planned nodes, or on any if it does not fit there. Its
/// capacity is taken from `free_capacity`.
std::optional<std::vector<HeldCapacity>> Engine::migration_target(const WorkloadUid& mover,
                                                                  const std::vector<HeldCapacity>& planned,
                                                                  FreeCapacity& free_capacity) const {
  FreeCapacity there;
  for (const HeldCapacity& place : planned) {
    if (const auto capacity = free_capacity.find(place.node); capacity != free_capacity.end()) there.insert(*capacity);
  }
  auto placed = place(request_for(mover), there, index_.preference, nullptr, ResultDetail::kPlan);
  if (placed.plan) {
    for (auto& [name, capacity] : there) free_capacity[name] = std::move(capacity);
  } else {
    placed = place(request_for(mover), free_capacity, index_.preference, nullptr, ResultDetail::kPlan);
  }
  if (!placed.plan) return std::nullopt;
  return places_of(placed.plan->members);
}

/// Whether every migrated victim fits the capacity held for it, once all victims have left.
bool Engine::migrations_fit(const Proposal& row) const {
  const auto gone = remaining_victims(row);
  return std::ranges::all_of(row.victims, [&](const Proposal::Victim& victim) {
    if (victim.to.empty()) return true;
    FreeCapacity there;
    for (const HeldCapacity& place : victim.to) {
      if (!tables_.nodes.contains(place.node)) return false;
      const HypotheticalState hypothetical{.attempts = gone, .holds = {victim.id.uid}, .defrag = true};
      there.emplace(place.node, capacity_of(place.node, hypothetical));
    }
    return place(request_for(victim.id.uid), there, index_.preference, nullptr, ResultDetail::kPlan).plan.has_value();
  });
}

/// Moves the targets of accepted migrations, and of victims that have left before the answer, to rows of
/// their own. These rows are not published.
void Engine::start_migrations(const WorkloadUid& to) {
  Proposal asked = *tables_.proposals.find(to);
  std::map<WorkloadUid, Proposal> movers;
  for (auto& victim : asked.victims) {
    const Workload* workload = tables_.workloads.find(victim.id.uid);
    if (victim.to.empty() || workload == nullptr) continue;
    const bool leaves = workload->attempt == victim.id.attempt &&
                        (asked.state == ProposalState::kAccepted || workload->phase == WorkloadPhase::kEvicting);
    if (!leaves && workload->attempt != victim.id.attempt + 1) continue;
    Proposal& own = movers[victim.id.uid];
    own.state = ProposalState::kAccepted;
    own.move = true;
    own.number = tables_.meta.edit(0).next_proposal++;
    own.attempt = victim.id.attempt;
    own.victims.push_back({victim.id, victim.gpu_ms, {}});
    own.places = std::exchange(victim.to, {});
    own.made = asked.made;
    own.published_at = scratch_.now;
    scratch_.out.notes.moved_gpu_ms += victim.gpu_ms;
    for (const char* what : {"Made", "Accepted"}) ++scratch_.out.notes.moves[what];
  }
  if (movers.empty()) return;
  put_proposal(to, std::move(asked));
  for (auto& [uid, own] : movers) put_proposal(uid, std::move(own));
}

}  // namespace qm::placement
