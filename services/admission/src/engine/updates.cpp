// Updates of objects. A workload that holds no quota gets the current spec of its object and keeps its queue
// position, as in Kueue. One that holds quota keeps what it was admitted with. Changes that can apply at once do so
// (priority class, fewer pods of a Job); the rest is kept for its next attempt. What is not supported is Rejected
// until its object changes.
#include "cause.hpp"
#include "update.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

std::string named(const std::string& value) { return value.empty() ? "none" : value; }

/// Differences in the fields from which quota is counted, in terms of the API; empty = none.
std::string differences(const Spec& was, const Spec& is) {
  std::string out;
  const auto add = [&](const std::string& what) { out += (out.empty() ? "" : ", ") + what; };
  if (was.queue != is.queue) add(fmt::format("queue {} to {}", named(was.queue), named(is.queue)));
  if (was.team != is.team) add(fmt::format("team {} to {}", was.team, is.team));
  if (was.pod_sets == is.pod_sets) return out;
  if (was.total_pods() != is.total_pods()) add(fmt::format("{} pods to {}", was.total_pods(), is.total_pods()));
  const auto alike = [](const PodSet& a, const PodSet& b) {
    return a.name == b.name && a.shape == b.shape && a.topology == b.topology && a.rules == b.rules;
  };
  if (!std::ranges::equal(*was.pod_sets, *is.pod_sets, alike)) add("the pod template");
  return out.empty() ? "the numbers of pods" : out;
}

/// Whether the only difference is that a Job runs fewer pods at once, which frees quota while it runs.
bool only_fewer_pods(const Spec& was, const Spec& is) {
  return is.total_pods() < was.total_pods() && differ_in_count_alone(was, is);
}

}  // namespace

bool differ_in_count_alone(const Spec& was, const Spec& is) {
  if (*was.kind != "Job" || was.pod_sets.size() != 1) return false;
  Spec as = is;
  if (is.pod_sets.empty()) {
    as.pod_sets = was.pod_sets;
    return differences(was, as).empty();
  }
  auto sets = *is.pod_sets;
  sets[0].count = was.pod_sets[0].count;
  sets[0].completions = was.pod_sets[0].completions;
  sets[0].min_count = was.pod_sets[0].min_count;
  as.pod_sets = std::move(sets);
  return differences(was, as).empty();
}

Cause Engine::no_pods() {
  return cause_of("NoPods", "it requests no pods: parallelism, completions or all replicas are 0",
                  "set them to at least 1; it keeps its queue position");
}

/// Updates the reason of a pending workload after a change of its obstacles.
void Engine::refresh_reason(const WorkloadUid& uid) {
  const Workload& w = *tables_.workloads.find(uid);
  if (w.phase != Phase::kPending) return;
  const auto reason = waiting_reason(w, lead(w.spec).obstacle);
  if (*w.reason == reason) return;
  update(uid, [&](Workload& row) { row.reason = reason; });
}

/// An update of an object that is known and has not ended.
void Engine::follow(const JobUpdated& c) {
  const WorkloadUid uid = c.spec.uid;
  const Workload& w = *tables_.workloads.find(uid);
  if (!c.rejected.empty()) return reject(uid, c.rejected);
  const bool was_rejected = w.phase == Phase::kRejected;
  if (w.holds_quota() && !w.rejected().empty()) except(uid, [](Exceptions& e) { e.rejected.clear(); });
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
    next.priority = priority_of(next).value_or(0);
  }
  if (!w.holds_quota()) {
    if (next == w.spec && !was_rejected && w.max_execution == c.max_execution &&
        w.external_scheduler == c.external_scheduler)
      return;
    update(uid, [&](Workload& row) {
      row.max_execution = c.max_execution;
      row.external_scheduler = c.external_scheduler;
    });
    return use_spec(uid, next);
  }
  if (w.phase == Phase::kQuotaReserved && !differences(w.spec, next).empty()) {
    store_next_spec(uid, next);
    return release(uid, "Updated", Duration{0});
  }
  // Admitted and still suspended: only the admitted spec is unsuspended (executor.cpp). So the admission ends, and the
  // updated workload is pending.
  const bool is_held = c.suspended && *w.spec.kind != "Workload" && !is_pods(*w.spec.kind);
  if (w.phase == Phase::kAdmitted && is_held && !differences(w.spec, next).empty()) {
    const std::string what = differences(w.spec, next);
    except(uid, [&](Exceptions& e) { e.next = next; });
    return evict(uid, "Updated", fmt::format("its object changed before it started ({})", what),
                 now_ + options_.eviction_grace);
  }
  if (next.priority_class != w.spec.priority_class) {
    const bool unknown = !priority_of(next);
    reshape(uid, [&](Workload& row) {
      row.spec.priority_class = next.priority_class;
      row.spec.priority = next.priority;
      row.priority_unknown = unknown;
    });
    publish(Event::What::kUpdated, uid);
  }
  if (!(next == w.spec)) return store_next_spec(uid, next, may_scale_up(c, next));
  if (w.next() != nullptr) except(uid, [](Exceptions& e) { e.forget_next(); });
}

void Engine::reject(const WorkloadUid& uid, std::string why) {
  const Workload& w = *tables_.workloads.find(uid);
  if (w.rejected() == why) return;
  except(uid, [&](Exceptions& e) {
    e.rejected = why;
    e.forget_next();
  });
  if (w.phase == Phase::kQuotaReserved) {
    release(uid, "Rejected", Duration{0});
  } else if (w.phase == Phase::kPending) {
    refresh_next_spec(uid);
  } else if (w.phase == Phase::kRejected) {
    publish(Event::What::kRejected, uid);
  }
  if (w.ended()) return;
  if (w.phase == Phase::kRejected) return add_intent("event.create", uid, why, "Rejected");
  add_intent("event.create", uid, fmt::format("it keeps running as admitted; its update is rejected: {}", why),
             "UpdateRejected");
}

/// Replaces the spec of a pending or rejected workload by the newest one.
void Engine::use_spec(const WorkloadUid& uid, const Spec& spec) {
  const Workload& w = *tables_.workloads.find(uid);
  const Lead where = lead(spec);
  const bool unknown = !priority_of(spec);
  dirty_.insert(indexes_.decisions.tree_of(w.cluster_queue));
  forget_estimate(uid);
  update(uid, [&](Workload& row) {
    row.phase = Phase::kPending;
    row.except([](Exceptions& e) {
      e.rejected.clear();
      e.forget_next();
    });
    row.cluster_queue = where.queue;
    row.queue_is_direct = where.direct;
    row.priority_unknown = unknown;
    row.spec.priority = spec.priority;
    row.not_before = Instant{};
    row.short_streak = 0;
    row.patient = false;
    row.budget.clear();
  });
  reshape(uid, [&](Workload& row) {
    row.spec = spec;
    row.planned = planned_run(row);
    row.reason = waiting_reason(row, where.obstacle);
  });
  publish(Event::What::kUpdated, uid);
}

/// Emits one event that the object differs from what runs. For a scale-up scale_up.cpp emits it.
void Engine::store_next_spec(const WorkloadUid& uid, const Spec& spec, bool grows) {
  const Workload& w = *tables_.workloads.find(uid);
  if (w.next() != nullptr && *w.next() == spec) return;
  except(uid, [&](Exceptions& e) { e.next = spec; });
  const std::string what = differences(w.spec, spec);
  if (what.empty() || grows || only_fewer_pods(w.spec, spec) || w.phase != Phase::kAdmitted) return;
  const bool runs_more = w.external_scheduler && differ_in_count_alone(w.spec, spec);
  add_intent(
      "event.create", uid,
      fmt::format("its object changed ({}) while it holds quota; {}the update is used at its next attempt: to use it "
                  "now, delete the object and create it again",
                  what,
                  runs_more ? "its pods are bound by another scheduler, so pods beyond those admitted run, and their "
                              "quota is counted as far as it is free; "
                            : ""),
      "UpdateNotFollowed");
}

/// Applies the kept update or rejection once the workload holds no quota.
void Engine::refresh_next_spec(const WorkloadUid& uid) {
  const Workload& w = *tables_.workloads.find(uid);
  if (w.phase != Phase::kPending) return;
  if (!w.rejected().empty()) {
    forget_estimate(uid);
    update(uid, [](Workload& row) {
      row.phase = Phase::kRejected;
      row.not_before = Instant{};
      row.budget.clear();
      row.reason = "Rejected";
    });
    publish(Event::What::kRejected, uid);
  } else if (w.next() != nullptr) {
    const Spec spec = *w.next();
    const auto print = w.exceptions->next_print;
    use_spec(uid, spec);
    if (print != 0) update(uid, [&](Workload& row) { row.spec_print = print; });
  }
}

/// Records the version of its object that the workload was parsed from. Fields that quota does not count, such as a
/// label, may differ.
void Engine::note_print(const JobUpdated& c) {
  const Workload& w = *tables_.workloads.find(c.spec.uid);
  if (c.spec_print == 0 || !c.rejected.empty()) return;
  if (w.next() != nullptr && w.exceptions->next_print != c.spec_print) {
    except(c.spec.uid, [&](Exceptions& e) { e.next_print = c.spec_print; });
  }
  if (w.spec_print == c.spec_print || (w.next() != nullptr && !differences(w.spec, *w.next()).empty())) return;
  update(c.spec.uid, [&](Workload& row) { row.spec_print = c.spec_print; });
}

void Engine::explain_update(const Workload& w, std::vector<Cause>& causes) const {
  if (!w.rejected().empty()) {
    causes.push_back(cause_of("UpdateRejected",
                              fmt::format("it runs as admitted; its update is rejected: {}", w.rejected()),
                              "correct the object; each update of it is parsed again"));
  } else if (w.scale_up_pending()) {
    for (auto& cause : scale_up_obstacles(w)) {
      causes.push_back(cause_of("ScaleUpPending", fmt::format("{}: {}", scale_up_of(w), cause.message), cause.remedy));
      causes.back().resource = cause.resource;
      causes.back().requested = cause.requested;
      causes.back().available = cause.available;
    }
  } else if (w.next() != nullptr && !differences(w.spec, *w.next()).empty()) {
    causes.push_back(
        cause_of("UpdateNotFollowed",
                 fmt::format("its object changed since it got quota ({}); the update is used at its next attempt",
                             differences(w.spec, *w.next())),
                 "to use the update now, delete the object and create it again"));
  }
}

}  // namespace qm::admission
