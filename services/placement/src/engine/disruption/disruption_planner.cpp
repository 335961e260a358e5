// One pass over all active proposals.
#include "engine/disruption/disruption_planner.hpp"

#include <algorithm>

namespace qm::placement {

void DisruptionPlanner::recheck_proposals(const std::set<NodeName>& seen) {
  const auto active = index_.with_proposal;
  for (const WorkloadUid& uid : active) {
    const Workload* workload = tables_.workloads.find(uid);
    const Proposal* known = tables_.proposals.find(uid);
    if (known == nullptr) continue;  // requested for a plan that has ended meanwhile
    const Proposal& row = *known;
    if (row.state == ProposalState::kRecovering) {
      if (recovery_.recovery_over(uid, row)) proposals_.drop_proposal(uid, "Over", scratch_.now);
      if (workload == nullptr) tables_.proposals.erase(uid);
      continue;
    }
    if (row.move) {
      proposals_.review_migration(uid);
      continue;
    }
    if (workload == nullptr || workload->attempt != row.attempt || workload->phase != WorkloadPhase::kQuotaReserved) {
      proposals_.drop_proposal(uid, "Over", scratch_.now);
      if (workload == nullptr) tables_.proposals.erase(uid);
      continue;
    }
    const auto nodes = row.nodes();
    if (std::ranges::any_of(nodes, [&](const NodeName& node) { return seen.contains(node); })) {
      scratch_.reservation_waiters.insert(uid);
      if (row.state == ProposalState::kAccepted) scratch_.proposals_to_recheck.insert(uid);
    }
    proposals_.start_migrations(uid);
  }
}

void DisruptionPlanner::advance_proposals() {
  if (!state_.synced() || index_.with_proposal.empty()) return;
  const PreemptionOptions& rules = options_.preemption;
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
    const bool accepted = row.state == ProposalState::kAccepted;
    if (there.empty() && !row.repartitions.empty()) {
      mig_preemption_.start_repartition(uid);
      continue;
    }
    const bool over = accepted && there.empty();  // and it still does not fit
    const auto is_void = [&] {
      FreeCapacity free_capacity = index_.free_capacity;
      return !victims_.placed_without(uid, there, free_capacity).plan || !victims_.migrations_fit(row);
    };
    if (over || (proposals_to_recheck.contains(uid) && is_void())) {
      proposals_.drop_proposal(uid, "Stale", scratch_.now);
      continue;
    }
    if (accepted || row.published_at + rules.answer > scratch_.now) continue;
    if (row.publish_count >= rules.max_publications) {
      proposals_.drop_proposal(uid, "Unanswered", scratch_.now + rules.again);
    } else if (!preemption_.proposal_is_valid(uid)) {
      proposals_.drop_proposal(uid, "Stale", scratch_.now);
    } else {
      Proposal& again = tables_.proposals.edit(uid);
      again.published_at = scratch_.now;
      ++again.publish_count;
      proposals_.publish_proposal(uid);
    }
  }
}

}  // namespace qm::placement
