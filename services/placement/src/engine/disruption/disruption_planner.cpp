// Which plans become proposals, and one pass over all active proposals.
#include "engine/disruption/disruption_planner.hpp"

#include "engine/mig/mig_layout_catalog.hpp"

#include <algorithm>

namespace qm::placement {

std::optional<Instant> DisruptionPlanner::earliest(const WorkloadUid& uid) const {
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

void DisruptionPlanner::propose() {
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

/// Instances are planned first; the general search has no repartitions.
void DisruptionPlanner::search(const WorkloadUid& uid, const std::set<AttemptId>& terminating) {
  auto found = mig_preemption_.plan(uid, terminating);
  if (!found) found = preemption_.plan(uid, terminating);
  if (auto* plan = std::get_if<DisruptionPlan>(&*found)) {
    proposals_.propose(uid, std::move(*plan));
  } else {
    proposals_.postpone(uid, std::move(std::get<NoPlan>(*found)));
  }
}

bool DisruptionPlanner::is_valid(const WorkloadUid& uid) const {
  const Proposal& row = *tables_.proposals.find(uid);
  const bool migrates = std::ranges::any_of(row.victims, [](const auto& victim) { return !victim.to.empty(); });
  return !migrates && requests_instances(tables_.workloads.find(uid)->spec.pod_sets) ? mig_preemption_.is_valid(uid)
                                                                                     : preemption_.is_valid(uid);
}

void DisruptionPlanner::recheck(const std::set<NodeName>& seen) {
  const auto active = index_.with_proposal;
  for (const WorkloadUid& uid : active) {
    const Proposal* known = tables_.proposals.find(uid);
    if (known == nullptr) continue;  // requested for a plan that has ended meanwhile
    if (known->move) {
      proposals_.review_migration(uid);
      continue;
    }
    if (proposals_.end_if_over(uid)) continue;
    const Proposal& row = *tables_.proposals.find(uid);
    if (row.state == ProposalState::kRecovering) continue;
    const auto nodes = row.nodes();
    if (std::ranges::any_of(nodes, [&](const NodeName& node) { return seen.contains(node); })) {
      scratch_.reservation_waiters.insert(uid);
      if (row.state == ProposalState::kAccepted) scratch_.proposals_to_recheck.insert(uid);
    }
    proposals_.start_migrations(uid);
  }
}

void DisruptionPlanner::advance() {
  if (!state_.synced() || index_.with_proposal.empty()) return;
  const auto proposals_to_recheck = std::exchange(scratch_.proposals_to_recheck, {});
  rows_.refresh_scores();
  const auto active = index_.with_proposal;
  for (const WorkloadUid& uid : active) {
    const Proposal* known = tables_.proposals.find(uid);
    if (known == nullptr) continue;  // requested for a plan that has ended meanwhile
    const Proposal& row = *known;
    if (row.state == ProposalState::kRecovering) continue;
    if (row.move) {
      defragmentation_.advance_migration(uid);
      continue;
    }
    const auto there = victims_.remaining_victims(row);
    const auto still_fits = [&] {
      FreeCapacity free_capacity = index_.free_capacity;
      return victims_.placed_without(uid, there, free_capacity).plan.has_value() && victims_.migrations_fit(row);
    };
    const disruption::PreemptionObserved seen{there.size(), proposals_to_recheck.contains(uid), still_fits,
                                              [&] { return is_valid(uid); }};
    auto step = disruption::advance_preemption(row, seen, scratch_.now, options_.preemption);
    const bool repartitions = std::ranges::any_of(
        step.actions, [](const auto& action) { return std::holds_alternative<disruption::OrderRepartitions>(action); });
    if (repartitions) {
      order_repartitions(uid);
    } else {
      proposals_.apply(uid, std::move(step));
    }
  }
}

void DisruptionPlanner::order_repartitions(const WorkloadUid& uid) {
  const NodeLayouts repartitions = tables_.proposals.find(uid)->repartitions;
  auto placed = victims_.placed_with_layouts(uid, {}, repartitions);
  if (!placed.plan || repartitions.size() > repartition_search_.budget_left(uid))
    return proposals_.drop(uid, "Stale", scratch_.now);
  MigRepartition found;
  found.layouts = repartitions;
  found.members = std::move(placed.plan->members);
  repartitions_.order(uid, found);
  for (const auto& [name, layout] : repartitions)
    nodes_.evaluate_node(name);  // cordoned before other workloads are placed
  proposals_.drop(uid, "MigRepartitioned", scratch_.now);
}

}  // namespace qm::placement
