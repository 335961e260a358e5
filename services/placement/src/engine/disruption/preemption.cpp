// Preemption plans. For a workload with quota that does not fit, the nodes and victim candidates become a
// cluster model, and a search finds the cheapest victims. The engine's own placement then verifies that the workload
// fits without them.
#include "engine/disruption/preemption.hpp"

#include "engine/disruption/preemption_problem.hpp"
#include "qm/placement/minimal_subset.hpp"

#include <algorithm>

namespace qm::placement {

namespace {

constexpr std::size_t kMaxReleased = 32;  // with at most so many victims, each is tried without eviction

}  // namespace

std::optional<DisruptionPlan> Preemption::plan_with(const WorkloadUid& uid,
                                                    const std::map<AttemptId, VictimOptions>& candidate_options) const {
  PreemptionProblem problem(state_, allocator_, capacities_, uid, candidate_options);
  const auto found = problem.plan();
  if (!found || !found->placed()) return std::nullopt;
  auto victims = problem.terminating(*found);
  if (victims.empty()) return std::nullopt;
  // The model has only numbers; the engine's own placement decides.
  FreeCapacity free_capacity = index_.free_capacity;
  auto placed = victims_.placed_without(uid, problem.ids(victims), free_capacity);
  if (!placed.plan) return std::nullopt;
  if (victims.size() <= kMaxReleased) {
    victims = minimal_subset(std::move(victims), [&](const std::vector<PreemptionProblem::Victim>& fewer) {
      FreeCapacity as_is = index_.free_capacity;
      auto enough = victims_.placed_without(uid, problem.ids(fewer), as_is);
      if (!enough.plan) return false;
      placed = std::move(enough);
      free_capacity = std::move(as_is);
      return true;
    });
  }
  if (victims.empty()) return std::nullopt;
  DisruptionPlan out;
  out.micro_usd = found->cost.topology;
  std::int64_t moved_gpu_ms = 0;
  for (auto& victim : victims) {
    if (!victim.to.empty()) {
      auto to = victims_.migration_target(victim.id.uid, victim.to, free_capacity);
      if (!to && victim.migrate_only) return std::nullopt;
      victim.to = to ? std::move(*to) : std::vector<HeldCapacity>();
    }
    if (victim.migrate_only) moved_gpu_ms += victim.gpu_ms;
    out.lost_micro_usd += victim.lost_micro_usd;
    out.victims.push_back({victim.id, victim.gpu_ms, std::move(victim.to)});
  }
  std::int64_t milli = 0;
  for (const PodSet& set : tables_.workloads.find(uid)->spec.pod_sets)
    milli += minimum_of(set) * class_of(set.shape).total_milli();
  if (moved_gpu_ms > options_.preemption.max_lost_gpu_seconds * milli) return std::nullopt;
  out.micro_usd += out.lost_micro_usd;
  out.places = places_of(placed.plan->members);
  return out;
}

SearchResult Preemption::plan(const WorkloadUid& uid, const std::set<AttemptId>& terminating) const {
  const Instant later = state_.scratch.now + options_.preemption.answer;
  std::map<AttemptId, VictimOptions> candidates;
  for (const auto& [id, row] : tables_.assignments) {
    if (terminating.contains(id)) continue;
    if (const VictimOptions how = victims_.victim_options(id, row, uid); how.any()) candidates[id] = how;
  }
  if (candidates.empty()) return NoPlan{"NoPreemptionCandidates", later};
  auto found = plan_with(uid, candidates);
  if (!found && std::erase_if(candidates, [](const auto& one) { return !one.second.evicted; }) > 0 &&
      !candidates.empty()) {
    found = plan_with(uid, candidates);
  }
  if (!found) return NoPlan{"NoSufficientVictims", later};
  return std::move(*found);
}

bool Preemption::is_valid(const WorkloadUid& uid) const {
  const Proposal& row = *tables_.proposals.find(uid);
  std::map<AttemptId, VictimOptions> candidate_options;
  std::set<AttemptId> victims;
  for (const auto& victim : row.victims) {
    const Assignment* there = tables_.assignments.find(victim.id);
    const VictimOptions how = there == nullptr ? VictimOptions{} : victims_.victim_options(victim.id, *there, uid);
    if (victim.to.empty() ? !how.evicted : !how.moved) return false;
    candidate_options[victim.id] = how;
    victims.insert(victim.id);
  }
  FreeCapacity free_capacity = index_.free_capacity;
  return PreemptionProblem(state_, allocator_, capacities_, uid, std::move(candidate_options)).still_holds(row) &&
         victims_.placed_without(uid, victims, free_capacity).plan.has_value() && victims_.migrations_fit(row);
}

}  // namespace qm::placement
