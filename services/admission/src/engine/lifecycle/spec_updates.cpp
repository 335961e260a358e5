#include "lifecycle/spec_updates.hpp"

#include "state/cause.hpp"
#include "state/queue_lookup.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

std::string name_or_none(const std::string& value) { return value.empty() ? "none" : value; }

/// Whether the only difference is that a Job runs fewer pods at once, which frees quota while it runs.
bool only_fewer_pods(const Spec& was, const Spec& is) {
  return is.total_pods() < was.total_pods() && differ_in_count_alone(was, is);
}

}  // namespace

std::string differences(const Spec& was, const Spec& is) {
  std::string out;
  const auto add = [&](const std::string& what) { out += (out.empty() ? "" : ", ") + what; };
  if (was.queue != is.queue) add(fmt::format("queue {} to {}", name_or_none(was.queue), name_or_none(is.queue)));
  if (was.team != is.team) add(fmt::format("team {} to {}", was.team, is.team));
  if (was.pod_sets == is.pod_sets) return out;
  if (was.total_pods() != is.total_pods()) add(fmt::format("{} pods to {}", was.total_pods(), is.total_pods()));
  const auto alike = [](const PodSet& a, const PodSet& b) {
    return a.name == b.name && a.shape == b.shape && a.topology == b.topology && a.rules == b.rules;
  };
  if (!std::ranges::equal(*was.pod_sets, *is.pod_sets, alike)) add("the pod template");
  return out.empty() ? "the numbers of pods" : out;
}

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
void SpecUpdates::refresh_reason(const WorkloadUid& uid) {
  const Workload& w = state_.workload(uid);
  if (w.phase != Phase::kPending) return;
  const auto reason = waiting_reason(w, resolve_queue(state_, w.spec).obstacle);
  if (*w.reason == reason) return;
  rows_.update(uid, [&](Workload& row) { row.reason = reason; });
}

void SpecUpdates::use(const WorkloadUid& uid, const Spec& spec) {
  const Workload& w = state_.workload(uid);
  const auto where = resolve_queue(state_, spec);
  const bool unknown = !priority_of(state_.tables, spec);
  state_.reschedule(w.cluster_queue);
  history_.forget_estimate(uid);
  rows_.update(uid, [&](Workload& row) {
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
  rows_.reshape(uid, [&](Workload& row) {
    row.spec = spec;
    row.planned = planned_run(state_, row);
    row.reason = waiting_reason(row, where.obstacle);
  });
  rows_.publish(Event::What::kUpdated, uid);
}

void SpecUpdates::store_next(const WorkloadUid& uid, const Spec& spec, bool grows) {
  const Workload& w = state_.workload(uid);
  if (w.next() != nullptr && *w.next() == spec) return;
  rows_.except(uid, [&](Exceptions& e) { e.next = spec; });
  const std::string what = differences(w.spec, spec);
  if (what.empty() || grows || only_fewer_pods(w.spec, spec) || w.phase != Phase::kAdmitted) return;
  const bool runs_more = w.external_scheduler && differ_in_count_alone(w.spec, spec);
  rows_.add_intent(
      "event.create", uid,
      fmt::format("its object changed ({}) while it holds quota; {}the update is used at its next attempt: to use it "
                  "now, delete the object and create it again",
                  what,
                  runs_more ? "its pods are bound by another scheduler, so pods beyond those admitted run, and their "
                              "quota is counted as far as it is free; "
                            : ""),
      "UpdateNotFollowed");
}

void SpecUpdates::apply_next(const WorkloadUid& uid) {
  const Workload& w = state_.workload(uid);
  if (w.phase != Phase::kPending) return;
  if (!w.rejected().empty()) {
    history_.forget_estimate(uid);
    rows_.update(uid, [](Workload& row) {
      row.phase = Phase::kRejected;
      row.not_before = Instant{};
      row.budget.clear();
      row.reason = "Rejected";
    });
    rows_.publish(Event::What::kRejected, uid);
  } else if (w.next() != nullptr) {
    const Spec spec = *w.next();
    const auto print = w.exceptions->next_print;
    use(uid, spec);
    if (print != 0) rows_.update(uid, [&](Workload& row) { row.spec_print = print; });
  }
}

}  // namespace qm::admission
