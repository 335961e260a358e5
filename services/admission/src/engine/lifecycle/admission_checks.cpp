#include "lifecycle/admission_checks.hpp"

#include "lifecycle/pod_updates.hpp"
#include "state/queue_lookup.hpp"

#include <algorithm>

namespace qm::admission {

void AdmissionChecks::refresh(const WorkloadUid& uid) {
  const Workload& w = state_.workload(uid);
  if (!w.gated) return;
  auto wanted = required_checks(state_, w, w.flavors);
  for (auto& [name, answer] : wanted) {
    if (const auto known = w.checks.find(name); known != w.checks.end()) answer = known->second;
  }
  if (wanted != w.checks) rows_.update(uid, [&](Workload& row) { row.checks = std::move(wanted); });
}

void AdmissionChecks::on(const AnswerCheck& c) {
  const Workload* w = rows_.find_unfinished(c.uid, c.ns, c.name);
  if (w == nullptr) return;
  const WorkloadUid uid = w->spec.uid;
  if (c.attempt != 0 && c.attempt != w->attempt) {
    ++state_.counters.stale;
    return state_.step.reply(PhaseReply{w->phase});
  }
  const auto known = w->checks.find(c.check);
  if (known == w->checks.end()) {
    std::string required;
    for (const auto& [name, answer] : w->checks) required += (required.empty() ? "" : ", ") + name;
    return state_.step.reply(fail(
        {Code::kFailedPrecondition,
         fmt::format("workload {}/{} is not gated by admission check {}", w->spec.ns, w->spec.name, c.check), "check",
         required.empty() ? "checks apply while quota is reserved, in queues that name them"
                          : fmt::format("it is gated by {}", required)}));
  }
  CheckAnswer answer{c.verdict, c.message, known->second.at, c.updates};
  const auto clash = clash_of(state_.tables, *w, c.check, c.updates);
  if (!clash.empty()) {
    state_.step.reply(
        fail({Code::kFailedPrecondition, clash, "pod_set_updates", "remove it, or repeat the same value"}));
    // The reply to an answer from an object (with an attempt) has no reader: the check stays Pending, with the reason.
    if (c.attempt == 0) return;
    answer = {Verdict::kPending, clash, known->second.at};
  }
  if (w->phase != Phase::kEvicting && !(known->second == answer)) {
    answer.at = state_.now;
    rows_.update(uid, [&](Workload& row) { row.checks.edit()[c.check] = std::move(answer); });
    evaluate(uid, c.retry_after);
  }
  if (!clash.empty()) return;
  state_.step.reply(PhaseReply{state_.tables.workloads.find(uid)->phase});
}

/// Rejected takes precedence over Retry.
void AdmissionChecks::evaluate(const WorkloadUid& uid, Duration retry_after) {
  const Workload& w = state_.workload(uid);
  const auto first = [&](Verdict verdict) {
    return std::ranges::find_if(w.checks, [&](const auto& one) { return one.second.verdict == verdict; });
  };
  const auto describe = [](const auto& one) {
    return fmt::format("admission check {} answered {}{}{}", one.first, name_of(one.second.verdict),
                       one.second.message.empty() ? "" : ": ", one.second.message);
  };
  if (const auto no = first(Verdict::kRejected); no != w.checks.end()) {
    return activation_.deactivate(uid, "AdmissionCheck", describe(*no));
  }
  const auto retry = first(Verdict::kRetry);
  if (retry == w.checks.end()) {
    // A workload that has not started is gated again until all checks are Ready; placement then gets a new request.
    if (w.phase == Phase::kQuotaReserved && !w.gated && first(Verdict::kPending) != w.checks.end()) {
      rows_.update(uid, [](Workload& row) {
        row.gated = true;
        row.retry_at = row.wait_deadline = Instant{};
      });
    }
    return;
  }
  const auto* check = state_.tables.admission_checks.find(retry->first);
  Duration wait = retry_after;
  if (wait == Duration{0} && check != nullptr) wait = check->retry_delay;
  if (wait == Duration{0}) wait = state_.options.backoff;
  const std::string why = describe(*retry);
  rows_.update(uid, [&](Workload& row) { row.requeued = state_.now; });
  transitions_.evict(uid, "AdmissionCheck", why, state_.now + state_.options.eviction_grace, state_.now + wait);
}

void AdmissionChecks::open_gates() {
  const bool one_by_one = state_.options.wait_for_pods_ready && state_.options.wait_for_pods_ready->block_admission;
  const auto passable = state_.indexes.gated;
  for (const auto& [since, uid] : passable) {
    if (one_by_one && !state_.indexes.starting.empty()) return;
    rows_.update(uid, [&](Workload& row) {
      row.gated = false;
      row.answer = Answer::kNone;
      row.retry_at = state_.now + state_.options.retry_interval;
    });
    rows_.publish(Event::What::kChecked, uid);
    if (state_.tables.workloads.find(uid)->external_scheduler) transitions_.admit(uid);
  }
}

}  // namespace qm::admission
