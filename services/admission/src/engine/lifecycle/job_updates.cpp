#include "lifecycle/job_updates.hpp"

#include "state/cause.hpp"
#include "state/queue_lookup.hpp"

#include <algorithm>

namespace qm::admission {

void JobUpdates::on(const JobUpdated& c) {
  const auto& uid = c.spec.uid;
  const Workload* known = state_.tables.workloads.find(uid);
  const bool busy = known != nullptr && known->open_intents > 0;
  if (known == nullptr) {
    if (c.complete || c.failed) return;
    create(c);
    known = state_.tables.workloads.find(uid);
  }
  if (known->ended()) return;
  if (c.complete || c.failed) return transitions_.finish(uid, c.complete);
  if (known->refused() != c.refused) {
    rows_.update(uid, [&](Workload& row) { row.except([&](Exceptions& e) { e.refused = c.refused; }); });
    specs_.refresh_reason(uid);
  }
  if (c.spec_active) activation_.on_active(uid, *c.spec_active);
  // Of an elastic Job, the pods that have to run together must be ready.
  const auto together =
      known->exceptions && known->exceptions->scaled_from > 0 ? known->exceptions->scaled_from : known->counted_pods();
  activation_.on_pods_ready(uid, (c.pods_ready || (c.elastic && c.ready >= together)) && c.attempt == known->attempt);
  if (c.rejected.empty()) groups_.update(c);
  if (known->ended()) return;
  follow(c);
  if (known->ended()) return;
  note_print(c);
  // A workload of pods reports attempt 0 once no ungated pod is left.
  const bool same = c.attempt == known->attempt || (is_pods(*known->spec.kind) && c.attempt == 0);
  const bool quiet = c.suspended && c.active == 0 && same;
  if (known->external_scheduler && known->phase == Phase::kEvicting && quiet) return transitions_.pods_deleted(uid);
  if (known->phase == Phase::kAdmitted && !c.suspended && c.attempt == known->attempt) scale_up_.scale(c);
  if (!busy) reconcile(c, *known);
}

/// Adds the workload of a new object.
void JobUpdates::create(const JobUpdated& c) {
  const auto& uid = c.spec.uid;
  if (const std::pair key{c.spec.ns, c.spec.name}; state_.tables.submissions.contains(key))
    state_.tables.submissions.erase(key);
  const Spec spec = c.spec;
  const auto where = resolve_queue(state_, spec);
  const auto priority = priority_of(state_.tables, spec);
  rows_.update(uid, [&](Workload& w) {
    w.spec = spec;
    w.spec.priority = priority.value_or(0);
    w.priority_unknown = !priority;
    if (w.spec.submitted == Instant{}) w.spec.submitted = state_.now;
    // An attempt that an earlier instance of this service wrote to the job is over: the next one must be greater.
    w.attempt = std::max(c.attempt + 1, 1);
    w.cluster_queue = where.queue;
    w.queue_is_direct = where.direct;
    w.queued = state_.now;
    w.external_scheduler = c.external_scheduler;
    w.except([&](Exceptions& e) { e.refused = c.refused; });
    w.max_execution = c.max_execution;
    w.spec.pods_expected = c.pods_expected;
    w.waiting_time = c.waiting_time;
    w.reason = waiting_reason(w, where.obstacle);
    w.planned = planned_run(state_, w);
  });
  if (!c.rejected.empty()) {
    reject(uid, c.rejected);
  } else {
    rows_.publish(Event::What::kQueued, uid);
  }
  if (where.direct) {
    rows_.add_intent("event.create", uid,
                     fmt::format("queue {} is a ClusterQueue, used although namespace {} has no LocalQueue "
                                 "of that name; create one "
                                 "that points to it",
                                 c.spec.queue, c.spec.ns));
  }
}

/// Makes the object follow the decision, whatever caused the difference.
void JobUpdates::reconcile(const JobUpdated& c, const Workload& known) {
  const auto& uid = c.spec.uid;
  const bool held_back =
      known.phase == Phase::kPending || known.phase == Phase::kQuotaReserved || known.phase == Phase::kRejected;
  if (!c.suspended && held_back) {
    rows_.add_intent("job.suspend", uid);
  } else if (c.suspended && known.phase == Phase::kAdmitted) {
    rows_.add_intent("job.unsuspend", uid);
  } else if (!c.suspended && known.phase == Phase::kEvicting && !known.cancelled) {
    rows_.add_intent("job.suspend", uid);
  }
}

void JobUpdates::on(const JobDeleted& c) {
  if (state_.tables.workloads.contains(c.uid)) transitions_.job_deleted(c.uid);
}

void JobUpdates::on(const JobsSynced& c) {
  std::vector<WorkloadUid> gone;
  for (const auto& [uid, w] : state_.tables.workloads) {
    const bool meant = c.pods ? is_pods(w.spec.kind) : w.spec.kind == c.kind;
    if (!w.job_deleted && meant && !c.uids.contains(uid)) gone.push_back(uid);
  }
  for (const auto& uid : gone) transitions_.job_deleted(uid);
  // A complete list arrives at each start and after gaps of the watch: schedules each tree once.
  state_.reschedule_all();
}

/// An update of an object that is known and has not ended.
void JobUpdates::follow(const JobUpdated& c) {
  const WorkloadUid uid = c.spec.uid;
  const Workload& w = state_.workload(uid);
  if (!c.rejected.empty()) return reject(uid, c.rejected);
  const bool was_rejected = w.phase == Phase::kRejected;
  if (w.holds_quota() && !w.rejected().empty()) rows_.except(uid, [](Exceptions& e) { e.rejected.clear(); });
  if ((w.spec.pods_expected || c.pods_expected) && !was_rejected) return;  // pod_groups.cpp
  // Ungated pods differ from the submitted ones, and their spec does not change.
  if (is_pods(*w.spec.kind) && !c.as_submitted && !was_rejected) return;
  Spec next = c.spec;
  next.submitted = w.spec.submitted;
  next.pods_expected = c.pods_expected;
  if (!c.as_submitted && !was_rejected) next.pod_sets = w.spec.pod_sets;
  if (*w.spec.kind == "PodGroup") {  // the PodGroup defines what its pods leave unset
    if (next.queue.empty()) next.queue = w.spec.queue;
    if (next.priority_class.empty()) next.priority_class = w.spec.priority_class;
  }
  // A resolved default is kept, as in Kueue.
  const bool same_class = next.priority_class == w.spec.priority_class && !was_rejected;
  if (same_class && (!next.priority_class.empty() || next.priority == 0)) {
    next.priority = w.spec.priority;
  } else {
    next.priority = priority_of(state_.tables, next).value_or(0);
  }
  if (!w.holds_quota()) {
    if (next == w.spec && !was_rejected && w.max_execution == c.max_execution &&
        w.external_scheduler == c.external_scheduler)
      return;
    rows_.update(uid, [&](Workload& row) {
      row.max_execution = c.max_execution;
      row.external_scheduler = c.external_scheduler;
    });
    return specs_.use(uid, next);
  }
  if (w.phase == Phase::kQuotaReserved && !differences(w.spec, next).empty()) {
    specs_.store_next(uid, next);
    return transitions_.release(uid, "Updated", Duration{0});
  }
  // Admitted and still suspended: only the admitted spec is unsuspended (executor.cpp). So the admission ends, and the
  // updated workload is pending.
  const bool is_held = c.suspended && *w.spec.kind != "Workload" && !is_pods(*w.spec.kind);
  if (w.phase == Phase::kAdmitted && is_held && !differences(w.spec, next).empty()) {
    const std::string what = differences(w.spec, next);
    rows_.except(uid, [&](Exceptions& e) { e.next = next; });
    return transitions_.evict(uid, "Updated", fmt::format("its object changed before it started ({})", what),
                              state_.now + state_.options.eviction_grace);
  }
  if (next.priority_class != w.spec.priority_class) {
    const bool unknown = !priority_of(state_.tables, next);
    rows_.reshape(uid, [&](Workload& row) {
      row.spec.priority_class = next.priority_class;
      row.spec.priority = next.priority;
      row.priority_unknown = unknown;
    });
    rows_.publish(Event::What::kUpdated, uid);
  }
  if (!(next == w.spec)) return specs_.store_next(uid, next, may_scale_up(state_.tables, c, next));
  if (w.next() != nullptr) rows_.except(uid, [](Exceptions& e) { e.forget_next(); });
}

void JobUpdates::reject(const WorkloadUid& uid, std::string why) {
  const Workload& w = state_.workload(uid);
  if (w.rejected() == why) return;
  rows_.except(uid, [&](Exceptions& e) {
    e.rejected = why;
    e.forget_next();
  });
  if (w.phase == Phase::kQuotaReserved) {
    transitions_.release(uid, "Rejected", Duration{0});
  } else if (w.phase == Phase::kPending) {
    specs_.apply_next(uid);
  } else if (w.phase == Phase::kRejected) {
    rows_.publish(Event::What::kRejected, uid);
  }
  if (w.ended()) return;
  if (w.phase == Phase::kRejected) return rows_.add_intent("event.create", uid, why, "Rejected");
  rows_.add_intent("event.create", uid, fmt::format("it keeps running as admitted; its update is rejected: {}", why),
                   "UpdateRejected");
}

/// Records the version of its object that the workload was parsed from. Fields that quota does not count, such as a
/// label, may differ.
void JobUpdates::note_print(const JobUpdated& c) {
  const Workload& w = state_.workload(c.spec.uid);
  if (c.spec_print == 0 || !c.rejected.empty()) return;
  if (w.next() != nullptr && w.exceptions->next_print != c.spec_print) {
    rows_.except(c.spec.uid, [&](Exceptions& e) { e.next_print = c.spec_print; });
  }
  if (w.spec_print == c.spec_print || (w.next() != nullptr && !differences(w.spec, *w.next()).empty())) return;
  rows_.update(c.spec.uid, [&](Workload& row) { row.spec_print = c.spec_print; });
}

}  // namespace qm::admission
