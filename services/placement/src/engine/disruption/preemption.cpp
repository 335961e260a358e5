// Preemption proposals. For a workload with quota that does not fit, the nodes and victim candidates become a
// cluster model, and a search finds the cheapest victims. The engine's own placement then verifies that the workload
// fits without them. An active proposal is a row: the capacity that it depends on is held. It is checked
// again before each publication and after admission's answer.
#include "engine/disruption/preemption.hpp"

#include "engine/disruption/preemption_problem.hpp"
#include "engine/mig/mig_layout_catalog.hpp"
#include "qm/placement/minimal_subset.hpp"

#include <algorithm>

namespace qm::placement {

namespace {

constexpr std::size_t kMaxReleased = 32;  // with at most so many victims, each is tried without eviction

const Proposal kNothing;

}  // namespace

std::optional<Instant> Preemption::earliest(const WorkloadUid& uid) const {
  const Workload& workload = *tables_.workloads.find(uid);
  if (workload.phase != WorkloadPhase::kQuotaReserved || workload.short_since == Instant{}) return std::nullopt;
  const bool may_displace = workload.quota_facts.own_queue || workload.quota_facts.in_tree;
  if ((!may_displace && !options_.preemption.moving) ||
      index_.reservations.rows(HoldSource::kRepartition).contains(uid))
    return std::nullopt;
  const Proposal* known = tables_.proposals.find(uid);
  if (known != nullptr && known->is_active() && known->state != ProposalState::kRecovering) return std::nullopt;
  return std::max(workload.short_since + options_.preemption.after, known == nullptr ? Instant{} : known->next);
}

void Preemption::propose() {
  const PreemptionOptions& rules = options_.preemption;
  if (!rules.on || !state_.synced() || state_.meta().searched + rules.every > scratch_.now) return;
  using QueuePosition =
      std::tuple<std::int64_t, Instant, WorkloadUid>;  // higher priority first, then the longer pending time
  std::vector<QueuePosition> positions;
  for (const WorkloadUid& uid : index_.without_placement) {
    const auto from = earliest(uid);
    if (!from || *from > scratch_.now) continue;
    const Workload& workload = *tables_.workloads.find(uid);
    positions.emplace_back(-std::int64_t{workload.spec.priority}, workload.short_since, uid);
  }
  if (positions.empty()) return;
  std::ranges::sort(positions);
  if (positions.size() > rules.max_searches) positions.resize(rules.max_searches);
  tables_.meta.edit(0).searched = scratch_.now;
  rows_.refresh_scores();
  for (const auto& [priority, since, uid] : positions) {
    if (std::ranges::count_if(index_.with_proposal, [this](const auto& other) {
          return !state_.is_migrating(other);
        }) >= static_cast<std::ptrdiff_t>(rules.max_active))
      return;
    std::set<AttemptId> terminating;
    for (const WorkloadUid& other : index_.with_proposal) {
      for (const auto& victim : tables_.proposals.find(other)->victims) terminating.insert(victim.id);
    }
    search(uid, terminating);
  }
}

/// Victims of the workload and their migration targets, as a new row. None if the workload does not fit
/// without them.
std::optional<Proposal> Preemption::plan_victims(const WorkloadUid& uid,
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
  Proposal out;
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

void Preemption::search(const WorkloadUid& uid, const std::set<AttemptId>& terminating) {
  if (mig_preemption_.propose(uid, terminating)) return;
  const PreemptionOptions& rules = options_.preemption;
  const Proposal* known = tables_.proposals.find(uid);
  Proposal next = known == nullptr ? kNothing : *known;
  const auto in_vain = [&](std::string why) {
    next.last = std::move(why);
    next.next = scratch_.now + rules.answer;
    if (known == nullptr || *known != next) tables_.proposals.insert(uid, std::move(next));
  };
  std::map<AttemptId, VictimOptions> candidates;
  for (const auto& [id, row] : tables_.assignments) {
    if (terminating.contains(id)) continue;
    if (const VictimOptions how = victims_.victim_options(id, row, uid); how.any()) candidates[id] = how;
  }
  if (candidates.empty()) return in_vain("NoPreemptionCandidates");
  auto found = plan_victims(uid, candidates);
  if (!found && std::erase_if(candidates, [](const auto& one) { return !one.second.evicted; }) > 0 &&
      !candidates.empty()) {
    found = plan_victims(uid, candidates);
  }
  if (!found) return in_vain("NoSufficientVictims");
  next.until = {};
  next.state = ProposalState::kProposed;
  next.number = tables_.meta.edit(0).next_proposal++;
  next.attempt = tables_.workloads.find(uid)->attempt;
  next.micro_usd = found->micro_usd;
  next.lost_micro_usd = found->lost_micro_usd;
  next.victims = std::move(found->victims);
  next.places = std::move(found->places);
  next.made = next.published_at = scratch_.now;
  next.publish_count = 1;
  next.last.clear();
  ++scratch_.out.notes.proposals["Made"];
  if (std::ranges::any_of(next.nodes(), [this](const NodeName& node) {
        return index_.reservations.holds(HoldSource::kDefragmentation, node);
      }))
    proposals_.end_run("CapacityUsedByOthers");
  rows_.put_proposal(uid, std::move(next));
  proposals_.publish(uid);
}

bool Preemption::is_valid(const WorkloadUid& uid) const {
  const Proposal& row = *tables_.proposals.find(uid);
  const bool moves_some = std::ranges::any_of(row.victims, [](const auto& victim) { return !victim.to.empty(); });
  if (!moves_some && requests_instances(tables_.workloads.find(uid)->spec.pod_sets))
    return mig_preemption_.is_valid(uid);
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
