// Offers of free capacity to pending workloads in back-off.
#include "engine/gangs/requeue.hpp"

#include "engine/gangs/queue_position.hpp"

#include <algorithm>

namespace qm::placement {

namespace {

constexpr std::int32_t kLastRound = 3;  // of offers to pending workloads

}  // namespace

void Requeue::offer() {
  if (!state_.synced()) return;
  const Instant due = state_.meta().requeue_at;
  const bool is_due = due != Instant{} && due <= scratch_.now;
  if (scratch_.neighbors || scratch_.constraints_changed)
    scratch_.backoff_retries.insert(index_.pending_with_rules.begin(), index_.pending_with_rules.end());
  if (scratch_.capacity_added) {
    requeue_fitting(index_.short_of, 0);
  } else if (!scratch_.backoff_retries.empty()) {
    requeue_fitting(scratch_.backoff_retries, 0);
  }
  if (!is_due) return;
  tables_.meta.edit(0).requeue_at = {};
  const auto round = state_.meta().requeue_round + 1;
  tables_.meta.edit(0).requeue_round = requeue_fitting(index_.short_of, round) ? round : 0;
}

bool Requeue::requeue_fitting(const std::set<WorkloadUid>& pending, std::int32_t round) {
  std::vector<QueuePosition> positions;
  for (const WorkloadUid& uid : pending) {
    const Workload* workload = tables_.workloads.find(uid);
    if (workload != nullptr && workload->phase == WorkloadPhase::kPending && workload->short_since != Instant{})
      positions.push_back({workload->spec.priority, false, workload->short_since, {}, 0, uid});
  }
  if (positions.empty()) return false;
  std::ranges::sort(positions, std::less<>());
  const std::size_t most = round == 0 || round >= kLastRound ? positions.size() : std::size_t{1} << (3 * round);
  std::set<PlacementRequest> known_unschedulable;
  std::set<NodeName> offered;
  std::size_t count = 0;
  const auto free_again = [&](const NodeName& node) { rows_.set_capacity(node, capacities_.capacity_of(node)); };
  for (const QueuePosition& entry : positions) {
    if (count == most) break;
    const PlacementRequest request = allocator_.request_for(entry.uid);
    // Capacity repartitioned or launched for it is available to it with or without quota.
    const bool holds =
        index_.reservations.rows(HoldSource::kRepartition).contains(entry.uid) || index_.kept_for.contains(entry.uid);
    if (known_unschedulable.contains(request) && !holds) continue;
    const auto hypothetical = holds ? reservations_.release_holds(entry.uid) : std::vector<NodeName>();
    const auto placed =
        allocator_.place(request, index_.free_capacity, index_.preference, &index_.lists, ResultDetail::kPlan);
    reservations_.restore_holds(hypothetical);
    if (!placed.plan) {
      if (hypothetical.empty()) known_unschedulable.insert(request);
      continue;
    }
    ++count;
    rows_.set_short(entry.uid, false);
    tables_.workloads.edit(entry.uid).fits_since = scratch_.now;
    rows_.index_workload(entry.uid);
    scratch_.requeue = true;
    for (const Member& member : placed.plan->members) {
      index_.lists.touch(member.node);
      offered.insert(member.node);
    }
    if (round != 0) std::ranges::for_each(std::exchange(offered, {}), free_again);
  }
  std::ranges::for_each(offered, free_again);
  if (count == 0) return false;
  if (state_.meta().requeue_at == Instant{}) tables_.meta.edit(0).requeue_at = scratch_.now + options_.requeue_pause;
  return true;
}

std::vector<RequeueItem> Requeue::requeue() const {
  std::vector<std::tuple<std::int64_t, Instant, AttemptId>> order;
  for (const WorkloadUid& uid : index_.requeueable) {
    const Workload& workload = *tables_.workloads.find(uid);
    order.emplace_back(-std::int64_t{workload.spec.priority}, workload.fits_since, AttemptId{uid, workload.attempt});
  }
  std::ranges::sort(order);
  std::vector<RequeueItem> items;
  for (auto& [priority, since, id] : order) items.push_back({std::move(id), since});
  return items;
}

}  // namespace qm::placement
