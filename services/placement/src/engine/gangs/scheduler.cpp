// Placement order: workloads with quota and without a placement, highest priority first, then longest on the
// demand list, then in the order in which admission gave them quota.
#include "engine/gangs/scheduler.hpp"

#include "engine/gangs/queue_position.hpp"
#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::placement {

void Scheduler::place_pending() {
  if (!state_.synced()) return;  // the sync sets scratch_.grew again
  const bool all = scratch_.capacity_added;
  for (bool first = true; first || scratch_.constraints_changed; first = false) {
    const bool constraints_changed = std::exchange(scratch_.constraints_changed, false);
    scratch_.neighbors = scratch_.neighbors || constraints_changed;
    std::vector<QueuePosition> positions;
    scratch_.reservation_waiters.insert(scratch_.requested.begin(), scratch_.requested.end());
    const auto grows = [&](const WorkloadUid& uid) {
      const Workload& workload = *tables_.workloads.find(uid);
      const Instant since = tables_.assignments.find({uid, workload.attempt})->decided;
      positions.push_back(
          {workload.spec.priority, true, since, workload.quota_reserved, workload.quota_facts.queue_position, uid});
    };
    if (first && all) std::ranges::for_each(index_.below_size, grows);
    for (const WorkloadUid& uid :
         (first && all) || constraints_changed ? index_.without_placement : scratch_.reservation_waiters) {
      if (first && !all && index_.below_size.contains(uid)) grows(uid);
      if (!index_.without_placement.contains(uid)) continue;
      const Workload& workload = *tables_.workloads.find(uid);
      const bool asks = first && (all || scratch_.reservation_waiters.contains(uid));
      if (!asks && !index_.pods_with_rules.contains(uid) && !index_.affinity_waiters.contains(uid)) continue;
      const Instant since = workload.short_since == Instant{} ? scratch_.now : workload.short_since;
      positions.push_back(
          {workload.spec.priority, false, since, workload.quota_reserved, workload.quota_facts.queue_position, uid});
    }
    std::ranges::sort(positions, std::less<>());
    if (!positions.empty() || (first && all)) rows_.refresh_scores();
    reservations_.begin_pass();
    std::map<PlacementRequest, std::string> known_unschedulable;  // free capacity only shrinks during this pass
    for (const QueuePosition& entry : positions) {
      if (!entry.grows) {
        decide(entry.uid, known_unschedulable);
        continue;
      }
      const auto hypothetical = reservations_.release_kept(entry.uid);
      if (elastic_.scale_up(entry.uid)) forget_ruled(known_unschedulable);
      reservations_.restore_holds(hypothetical);
    }
    reservations_.end_pass();
  }
  scratch_.requested.clear();
  scratch_.reservation_waiters.clear();
}

/// A new pod may satisfy the inter-pod rules of other workloads.
void Scheduler::forget_ruled(std::map<PlacementRequest, std::string>& known_unschedulable) {
  std::erase_if(known_unschedulable, [](const auto& known) { return !known.first.rules.empty(); });
}

void Scheduler::decide(const WorkloadUid& uid, std::map<PlacementRequest, std::string>& known_unschedulable) {
  const Workload& workload = *tables_.workloads.find(uid);
  const AttemptId id{uid, workload.attempt};
  const Assignment* old = tables_.assignments.find(id);

  Assignment next = assignment_for(workload.spec);
  next.decided = scratch_.now;
  next.revision = old == nullptr ? 0 : old->revision;
  next.rules = allocator_.rules_of(id, next.pod_sets);
  const PlacementRequest request = allocator_.request_for(uid);
  PlacementResult placed;
  const bool wants_reason = old == nullptr || scratch_.requested.contains(uid);  // a retry keeps the published reason
  const auto wanted = wants_reason ? ResultDetail::kReason : ResultDetail::kPlan;
  auto hypothetical = reservations_.release_holds(uid);
  bool instead = false;  // replaces planned migrations
  if (auto returned = recovery_.place_recovery(uid, request); returned.plan) {
    placed = std::move(returned);
  } else if (const auto known = known_unschedulable.find(request);
             known != known_unschedulable.end() && hypothetical.empty() && (!wants_reason || !known->second.empty())) {
    placed.shortfall.reason = known->second;
  } else {
    if (state_.is_migrating(uid)) placed = victims_.place_at(uid, tables_.proposals.find(uid)->places);
    if (!placed.plan)
      placed = allocator_.place(request, index_.free_capacity, index_.preference, &index_.lists, wanted);
    if (!placed.plan && !index_.reservations.nodes(HoldSource::kDefragmentation).empty()) {
      hypothetical = reservations_.release_holds(uid, true);
      placed = allocator_.place(request, index_.free_capacity, index_.preference, &index_.lists, wanted);
      instead = placed.plan.has_value();
    }
    if (!placed.plan) known_unschedulable[request] = placed.shortfall.reason;
  }
  if (placed.plan) {
    forget_ruled(known_unschedulable);
    next.state = AssignmentState::kReserved;
    next.members = std::move(placed.plan->members);
    next.expires = scratch_.now + options_.hold;
    if (workload.quota_reserved != Instant{} && workload.quota_reserved <= scratch_.now) {
      scratch_.out.notes.decided_after.push_back(scratch_.now - workload.quota_reserved);
    }
    rows_.set_short(uid, false);
    rows_.store(id, std::move(next));
    proposals_.forget_row(uid);
    if (instead) proposals_.end_run("CapacityUsedByOthers"), known_unschedulable.clear();
    repartitions_.end(uid);
    reservations_.restore_holds(hypothetical);
    if (!hypothetical.empty())
      scratch_.proposals_to_recheck.insert(index_.with_proposal.begin(), index_.with_proposal.end());
    rows_.reserve_places(id, tables_.assignments.find(id)->members);
    return;
  }
  reservations_.restore_holds(hypothetical);
  rows_.set_short(uid, true);
  if (!wants_reason) return;
  next.state = AssignmentState::kShort;
  next.short_reason = std::move(placed.shortfall.reason);
  rows_.store(id, std::move(next));
  scratch_.changed.insert(id);
}

}  // namespace qm::placement
