#include "lifecycle/timers.hpp"

#include "state/deadlines.hpp"

#include <algorithm>

namespace qm::admission {

void Timers::fire() {
  std::vector<WorkloadUid> due;
  for (const auto& [at, uid] : state_.indexes.timers) {
    if (at > state_.now) break;
    due.push_back(uid);
  }
  for (const auto& uid : due) fire_one(uid);
  while (state_.indexes.ended.size() > state_.options.most_ended) {
    const WorkloadUid oldest = state_.indexes.ended.begin()->second;  // forget() removes its entry
    transitions_.forget(oldest);
  }
}

void Timers::fire_one(const WorkloadUid& uid) {
  const Workload& w = state_.workload(uid);
  switch (w.phase) {
    case Phase::kPending:
      return rows_.update(uid, [](Workload& row) {
        row.not_before = Instant{};
        row.patient = false;
      });
    case Phase::kQuotaReserved:
      return wait_is_over(w) ? give_back_quota(w) : transitions_.repeat(uid);
    case Phase::kAdmitted:
      return fire_admitted(w);
    case Phase::kEvicting:
      return transitions_.repeat(uid);
    case Phase::kRejected:
      return;  // it has no timer
    case Phase::kFinished:
    case Phase::kCancelled:
      return transitions_.forget(uid);
  }
}

bool Timers::wait_is_over(const Workload& w) const {
  return w.wait_deadline != Instant{} && w.wait_deadline <= state_.now;
}

/// The wait for capacity is over, unless victims still terminate.
void Timers::give_back_quota(const Workload& w) {
  const WorkloadUid uid = w.spec.uid;
  if (waits_for_victims(state_.tables, w)) return proposals_.extend_deadline(uid);
  const int doublings = std::min<int>(w.short_streak, 20);
  const Duration wait = std::min(state_.options.backoff_most, state_.options.backoff * (std::int64_t{1} << doublings));
  rows_.update(uid, [](Workload& row) { row.short_streak += row.short_streak < UINT16_MAX; });
  transitions_.release(uid, "InsufficientCapacity", wait);
}

void Timers::fire_admitted(const Workload& w) {
  const WorkloadUid uid = w.spec.uid;
  const bool over = wait_is_over(w);
  if (w.min_runtime_until != Instant{} && w.min_runtime_until <= state_.now) {
    rows_.update(uid, [](Workload& row) { row.min_runtime_until = Instant{}; });
    state_.reschedule(w.cluster_queue);
  }
  if (const auto limit = run_limit_of(w); limit && *limit <= state_.now) {
    return activation_.deactivate(uid, "MaximumExecutionTimeExceeded",
                                  fmt::format("it ran for {} s, its maximum execution time", seconds(w.max_execution)));
  }
  if (const auto limit = pods_limit_of(state_.options, w); limit && *limit <= state_.now) {
    return activation_.pods_not_ready(uid);
  }
  if (!over) return;
  transitions_.evict(uid, "PodsGone", "its pods were deleted without an eviction order", state_.now);
  transitions_.release(uid, "PodsGone", state_.options.backoff);
}

}  // namespace qm::admission
