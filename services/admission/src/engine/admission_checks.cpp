// Conditions in addition to quota. Before the start: each required admission check is Ready and, where configured, the
// pods of all started workloads are ready. Until then quota is held behind a gate, and placement gets no request. While
// a workload runs: a limit of its run time, and pods that are ready in time. A workload that may not be scheduled again
// is deactivated, and stays pending until it is activated.
#include "pod_updates.hpp"
#include "update.hpp"

#include <algorithm>

namespace qm::admission {

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPending:
      return "Pending";
    case Verdict::kReady:
      return "Ready";
    case Verdict::kRetry:
      return "Retry";
    case Verdict::kRejected:
      return "Rejected";
  }
  return "Unknown";
}

// ---- checks ----

std::optional<Cause> Engine::check_obstacle(const ClusterQueue& queue) const {
  for (const auto& [name, flavors] : queue.checks) {
    const auto* check = tables_.admission_checks.find(name);
    if (check != nullptr && check->active) continue;
    Cause c;
    c.code = check == nullptr ? "AdmissionCheckNotFound" : "AdmissionCheckInactive";
    c.message = check == nullptr
                    ? fmt::format("ClusterQueue {} requires admission check {}, which does not exist", queue.name, name)
                    : fmt::format("ClusterQueue {} requires admission check {}, which {} does not answer", queue.name,
                                  name, check->controller);
    c.remedy = check == nullptr ? "apply an AdmissionCheck of that name, or remove it from the queue"
                                : "start its controller, or remove it from the queue";
    return c;
  }
  return std::nullopt;
}

std::set<QueueName> Engine::idle_queues() const {
  std::set<QueueName> out;
  for (const auto& [name, queue] : tables_.cluster_queues) {
    if (queue.stop != StopPolicy::kNone || queue.closing || check_obstacle(queue)) out.insert(name);
  }
  return out;
}

std::map<std::string, CheckAnswer> Engine::checks_of(const Workload& w, const Flavors& flavors) const {
  std::map<std::string, CheckAnswer> out;
  const auto* queue = tables_.cluster_queues.find(w.cluster_queue);
  if (queue == nullptr) return out;
  const auto has = [&](const std::set<FlavorName>& any) {
    for (const auto& [set, chosen] : flavors) {
      for (const auto& [resource, flavor] : chosen) {
        if (any.contains(flavor)) return true;
      }
    }
    return false;
  };
  for (const auto& [name, only] : queue->checks) {
    if (only.empty() || has(only)) out[name].at = now_;
  }
  return out;
}

/// Its queue may require other checks by now. A workload past the gate keeps its checks.
void Engine::refresh_checks(const WorkloadUid& uid) {
  const Workload& w = *tables_.workloads.find(uid);
  if (!w.gated) return;
  auto wanted = checks_of(w, w.flavors);
  for (auto& [name, answer] : wanted) {
    if (const auto known = w.checks.find(name); known != w.checks.end()) answer = known->second;
  }
  if (wanted != w.checks) update(uid, [&](Workload& row) { row.checks = std::move(wanted); });
}

const Workload* Engine::find_unfinished(const WorkloadUid& uid, const Namespace& ns, const std::string& name) {
  const Workload* w = uid.empty() ? find(ns, name) : tables_.workloads.find(uid);
  if (w == nullptr) {
    reply(fail({Code::kNotFound,
                uid.empty() ? fmt::format("workload {}/{} is not known", ns, name)
                            : fmt::format("no workload has the uid {}", uid),
                uid.empty() ? "name" : "uid", "list the workloads of the namespace"}));
  } else if (w->ended()) {
    reply(fail({Code::kFailedPrecondition,
                fmt::format("workload {}/{} is {}", w->spec.ns, w->spec.name, name_of(w->phase)),
                {},
                "its state is final"}));
    w = nullptr;
  }
  return w;
}

void Engine::on(const AnswerCheck& c) {
  const Workload* w = find_unfinished(c.uid, c.ns, c.name);
  if (w == nullptr) return;
  const WorkloadUid uid = w->spec.uid;
  if (c.attempt != 0 && c.attempt != w->attempt) {
    ++counters_.stale;
    return reply(PhaseReply{w->phase});
  }
  const auto known = w->checks.find(c.check);
  if (known == w->checks.end()) {
    std::string required;
    for (const auto& [name, answer] : w->checks) required += (required.empty() ? "" : ", ") + name;
    return reply(fail(
        {Code::kFailedPrecondition,
         fmt::format("workload {}/{} is not gated by admission check {}", w->spec.ns, w->spec.name, c.check), "check",
         required.empty() ? "checks apply while quota is reserved, in queues that name them"
                          : fmt::format("it is gated by {}", required)}));
  }
  CheckAnswer answer{c.verdict, c.message, known->second.at, c.updates};
  const auto clash = clash_of(tables_, *w, c.check, c.updates);
  if (!clash.empty()) {
    reply(fail({Code::kFailedPrecondition, clash, "pod_set_updates", "remove it, or repeat the same value"}));
    // The reply to an answer from an object (with an attempt) has no reader: the check stays Pending, with the reason.
    if (c.attempt == 0) return;
    answer = {Verdict::kPending, clash, known->second.at};
  }
  if (w->phase != Phase::kEvicting && !(known->second == answer)) {
    answer.at = now_;
    update(uid, [&](Workload& row) { row.checks.edit()[c.check] = std::move(answer); });
    evaluate_checks(uid, c.retry_after);
  }
  if (!clash.empty()) return;
  reply(PhaseReply{tables_.workloads.find(uid)->phase});
}

/// Rejected takes precedence over Retry.
void Engine::evaluate_checks(const WorkloadUid& uid, Duration retry_after) {
  const Workload& w = *tables_.workloads.find(uid);
  const auto first = [&](Verdict verdict) {
    return std::ranges::find_if(w.checks, [&](const auto& one) { return one.second.verdict == verdict; });
  };
  const auto describe = [](const auto& one) {
    return fmt::format("admission check {} answered {}{}{}", one.first, name_of(one.second.verdict),
                       one.second.message.empty() ? "" : ": ", one.second.message);
  };
  if (const auto no = first(Verdict::kRejected); no != w.checks.end()) {
    return deactivate(uid, "AdmissionCheck", describe(*no));
  }
  const auto retry = first(Verdict::kRetry);
  if (retry == w.checks.end()) {
    // A workload that has not started is gated again until all checks are Ready; placement then gets a new request.
    if (w.phase == Phase::kQuotaReserved && !w.gated && first(Verdict::kPending) != w.checks.end()) {
      update(uid, [](Workload& row) {
        row.gated = true;
        row.retry_at = row.wait_deadline = Instant{};
      });
    }
    return;
  }
  const auto* check = tables_.admission_checks.find(retry->first);
  Duration wait = retry_after;
  if (wait == Duration{0} && check != nullptr) wait = check->retry_delay;
  if (wait == Duration{0}) wait = options_.backoff;
  const std::string why = describe(*retry);
  update(uid, [&](Workload& row) { row.requeued = now_; });
  evict(uid, "AdmissionCheck", why, now_ + options_.eviction_grace, now_ + wait);
}

/// Opens gates in the order in which quota was reserved: a gated workload blocks no quota except its own.
void Engine::open_gates() {
  const bool one_by_one = options_.wait_for_pods_ready && options_.wait_for_pods_ready->block_admission;
  const auto passable = indexes_.gated;
  for (const auto& [since, uid] : passable) {
    if (one_by_one && !indexes_.starting.empty()) return;
    update(uid, [&](Workload& row) {
      row.gated = false;
      row.answer = Answer::kNone;
      row.retry_at = now_ + options_.retry_interval;
    });
    publish(Event::What::kChecked, uid);
    if (tables_.workloads.find(uid)->external_scheduler) admit(uid);
  }
}

void Engine::explain_gate(const Workload& w, std::vector<Cause>& causes) const {
  for (const auto& [name, answer] : w.checks) {
    if (answer.verdict == Verdict::kReady) continue;
    Cause c;
    c.code = "UnsatisfiedAdmissionCheck";
    c.message = fmt::format("quota is reserved; admission check {} is {}{}{}", name, name_of(answer.verdict),
                            answer.message.empty() ? "" : ": ", answer.message);
    const auto* check = tables_.admission_checks.find(name);
    c.remedy = check == nullptr || check->controller.empty() ? "its controller must answer it"
                                                             : fmt::format("{} must answer it", check->controller);
    causes.push_back(std::move(c));
  }
  if (!causes.empty()) return;
  Cause c;
  if (w.spec.pods_expected) {
    c.code = "PodsPending";
    c.message = "quota is reserved; none of its pods exists yet";
    c.remedy = "its PodGroup is Inqueue, so its controller should create them; check the owner of the PodGroup";
    causes.push_back(std::move(c));
    return;
  }
  c.code = "WaitingForPodsReady";
  c.message = fmt::format("quota is reserved; not all pods of {} earlier workload{} are ready",
                          indexes_.starting.size(), indexes_.starting.size() == 1 ? "" : "s");
  c.remedy = "workloads start one after the other; check the pods of those";
  causes.push_back(std::move(c));
}

// ---- activation ----

void Engine::on(const SetActive& c) {
  const Workload* w = find_unfinished(c.uid, c.ns, c.name);
  if (w == nullptr) return;
  const WorkloadUid uid = w->spec.uid;
  c.active ? activate(uid) : deactivate(uid, "Deactivated", c.reason.empty() ? "by hand" : c.reason);
  reply(PhaseReply{w->phase});
}

void Engine::deactivate(const WorkloadUid& uid, std::string reason, std::string message) {
  const Workload& w = *tables_.workloads.find(uid);
  if (w.ended() || !w.inactive.empty()) return;
  update(uid, [&](Workload& row) {
    row.inactive = message.empty() ? reason : fmt::format("{}, {}", reason, message);
    row.requeues = 0;
    row.requeued = Instant{};
    if (row.phase == Phase::kPending) row.not_before = Instant{};
  });
  if (w.phase == Phase::kPending) {
    refresh_reason(uid);
    return publish(Event::What::kDeactivated, uid);
  }
  evict(uid, reason, message.empty() ? "it was deactivated" : message, now_ + options_.eviction_grace);
}

void Engine::activate(const WorkloadUid& uid) {
  const Workload& w = *tables_.workloads.find(uid);
  if (w.ended() || w.inactive.empty()) return;
  update(uid, [](Workload& row) { row.inactive.clear(); });
  refresh_reason(uid);
  if (w.phase == Phase::kPending) publish(Event::What::kActivated, uid);
}

void Engine::on(const ActiveUpdated& c) {
  if (tables_.workloads.contains(c.uid)) on_active(c.uid, c.active);
}

/// `spec.active` applies when it changes: a workload that was deactivated here stays inactive until the next change.
void Engine::on_active(const WorkloadUid& uid, bool active) {
  const Workload& w = *tables_.workloads.find(uid);
  if (w.spec_active == active) return;
  update(uid, [&](Workload& row) { row.spec_active = active; });
  active ? activate(uid) : deactivate(uid, "Deactivated", "its object sets active to false");
}

// ---- limits of a running workload ----

/// Only admitted time counts, over all attempts.
std::optional<Instant> Engine::run_limit_of(const Workload& w) const {
  if (w.phase != Phase::kAdmitted || w.max_execution == Duration{0}) return std::nullopt;
  return w.admitted + std::max(Duration{0}, w.max_execution - w.ran);
}

std::optional<Instant> Engine::pods_limit_of(const Workload& w) const {
  const auto& rule = options_.wait_for_pods_ready;
  if (!rule || w.phase != Phase::kAdmitted || w.pods_ready != Instant{}) return std::nullopt;
  if (w.pods_lost == Instant{}) return w.admitted + rule->timeout;
  if (rule->recovery_timeout == Duration{0}) return std::nullopt;
  return w.pods_lost + rule->recovery_timeout;
}

void Engine::on_pods_ready(const WorkloadUid& uid, bool ready) {
  const Workload& w = *tables_.workloads.find(uid);
  if (!options_.wait_for_pods_ready || w.phase != Phase::kAdmitted || ready == (w.pods_ready != Instant{})) return;
  update(uid, [&](Workload& row) {
    row.pods_ready = ready ? now_ : Instant{};
    row.pods_lost = ready ? Instant{} : now_;
  });
}

void Engine::pods_not_ready(const WorkloadUid& uid) {
  const Workload& w = *tables_.workloads.find(uid);
  const auto& rule = *options_.wait_for_pods_ready;
  if (rule.most_requeues && w.requeues + 1 > *rule.most_requeues) {
    return deactivate(uid, "RequeuingLimitExceeded",
                      fmt::format("its pods were not ready in time, {} times", w.requeues + 1));
  }
  const Duration wait = std::min(rule.backoff_most, rule.backoff * (std::int64_t{1} << std::min(w.requeues, 20)));
  const char* what = w.pods_lost == Instant{} ? "not all of its pods became ready in time"
                                              : "not all of its pods were ready again in time";
  update(uid, [&](Workload& row) {
    ++row.requeues;
    if (!rule.keeps_age) row.requeued = now_;
  });
  evict(uid, "PodsReadyTimeout", what, now_ + options_.eviction_grace, now_ + wait);
}

}  // namespace qm::admission
