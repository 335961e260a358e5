// One pass over all active proposals.
#include "engine/disruption/disruption_planner.hpp"

#include <algorithm>

namespace qm::placement {

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
                                              [&] { return preemption_.is_valid(uid); }};
    auto step = disruption::advance_preemption(row, seen, scratch_.now, options_.preemption);
    const bool repartitions = std::ranges::any_of(
        step.actions, [](const auto& action) { return std::holds_alternative<disruption::OrderRepartitions>(action); });
    if (repartitions) {
      mig_preemption_.order_repartitions(uid);
    } else {
      proposals_.apply(uid, std::move(step));
    }
  }
}

}  // namespace qm::placement
