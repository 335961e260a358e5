// Phase transitions: the valid ones, and the events and intents of each.
#include "lifecycle/transitions.hpp"

#include "qm/base/assert.hpp"
#include "state/queue_lookup.hpp"

namespace qm::admission {

void Transitions::reserve(const WorkloadUid& uid, const Assignment& assignment) {
  const Workload& w = state_.workload(uid);
  QM_ASSERT(w.phase == Phase::kPending, "workload {} is {}", uid, name_of(w.phase));
  rows_.update(uid, [&](Workload& row) {
    row.phase = Phase::kQuotaReserved;
    row.flavors = assignment.flavors;
    row.usage = assignment.usage;
    row.counts = assignment.counts;
    row.except([&](Exceptions& e) { e.nodes = assignment.nodes; });
    row.quota_reserved = state_.now;
    row.quota_position = static_cast<std::uint16_t>(std::min<std::size_t>(++state_.step.reserved, UINT16_MAX));
    row.answer = Answer::kNone;
    row.reservation.clear();
    row.short_reason.clear();
    row.checks = required_checks(state_, row, row.flavors);
    row.gated = row.spec.pods_expected || !row.checks.empty() ||
                (state_.options.wait_for_pods_ready && state_.options.wait_for_pods_ready->block_admission);
    row.retry_at = row.gated ? Instant{} : state_.now + state_.options.retry_interval;
    row.wait_deadline = Instant{};
    row.reason = "QuotaReserved";
  });
  usage_.enter(w);
  rows_.publish(Event::What::kQuotaReserved, uid);
  if (w.external_scheduler && !w.gated) admit(uid);
}

void Transitions::pods_deleted(const WorkloadUid& uid) {
  const auto& order = *state_.tables.workloads.find(uid)->eviction;
  const Duration wait = order.requeue_at > state_.now   ? order.requeue_at - state_.now
                        : order.reason == "StartFailed" ? state_.options.backoff
                                                        : Duration{0};
  release(uid, order.reason, wait);
}

void Transitions::pods_ended(const WorkloadUid& uid, std::int32_t ended) {
  const Workload& w = state_.workload(uid);
  const auto* queue = state_.tables.cluster_queues.find(w.cluster_queue);
  if (queue != nullptr && queue->volcano) return;  // Volcano counts a gang whole
  const auto all = w.running_pods();
  if (w.spec.kind != "Job" || w.spec.pod_sets.size() != 1 || ended <= w.ended_pods || ended >= all) return;
  rows_.update(uid, [&](Workload& row) {
    for (auto& [at, amount] : row.usage.edit()) amount = amount / (all - row.ended_pods) * (all - ended);
    row.ended_pods = ended;
  });
  rows_.publish(Event::What::kPodsEnded, uid);
}

void Transitions::admit(const WorkloadUid& uid) {
  QM_ASSERT(state_.tables.workloads.find(uid)->phase == Phase::kQuotaReserved);
  const Duration kept = minimum_run_of(state_.tables, state_.workload(uid));
  history_.compare_estimate(uid, true);
  rows_.update(uid, [&](Workload& row) {
    row.phase = Phase::kAdmitted;
    row.admitted = state_.now;
    row.min_runtime_until = kept > Duration{0} ? state_.now + kept : Instant{};
    row.retry_at = Instant{};
    row.wait_deadline = Instant{};
    row.short_streak = 0;
    row.promised_attempt = 0;
    row.promised_until = Instant{};
    row.reason = "Admitted";
  });
  rows_.publish(Event::What::kAdmitted, uid);
  rows_.add_intent("job.unsuspend", uid);
}

void Transitions::evict(const WorkloadUid& uid, std::string reason, std::string message, Instant deadline,
                        Instant requeue_at) {
  const Workload& w = state_.workload(uid);
  if (w.phase == Phase::kQuotaReserved) {  // it has no pods yet
    rows_.update(uid, [&](Workload& row) { row.patient = requeue_at > state_.now; });
    return release(uid, reason, requeue_at > state_.now ? requeue_at - state_.now : Duration{0});
  }
  if (w.phase != Phase::kAdmitted) return;
  rows_.update(uid, [&](Workload& row) {
    row.phase = Phase::kEvicting;
    row.eviction = Eviction{reason, message, deadline, state_.now, row.spec.checkpoints, requeue_at};
    row.patient = requeue_at != Instant{};
    row.retry_at = state_.now + state_.options.retry_interval;
    row.wait_deadline = Instant{};
    row.reason = reason;
  });
  rows_.publish(Event::What::kEvicting, uid);
  if (!w.cancelled && !w.job_deleted) rows_.add_intent("job.suspend", uid);
}

void Transitions::release(const WorkloadUid& uid, std::string reason, Duration backoff) {
  const Workload& w = state_.workload(uid);
  QM_ASSERT(w.holds_quota(), "workload {} is {}", uid, name_of(w.phase));
  if (w.cancelled || w.job_deleted) return cancel_now(uid, w.cancelled ? w.cancel_reason() : "JobDeleted");
  const auto where = resolve_queue(state_, w.spec);
  history_.learn_run(w, forecast::LifeTable::End::kCutOff);
  rows_.update(uid, [&](Workload& row) {
    row.phase = Phase::kPending;
    ++row.attempt;
    row.cluster_queue = where.queue;
    row.flavors.clear();
    row.usage.clear();
    row.counts.clear();
    row.ended_pods = row.quota_position = 0;
    row.except([](Exceptions& e) {
      e.scale_up_to = e.scaled_from = 0;
      e.nodes.clear();
    });
    row.eviction.reset();
    row.answer = Answer::kNone;
    row.reservation.clear();
    row.queued = state_.now;
    row.checks.clear();
    row.gated = false;
    // After it exceeded its limit, its time restarts from zero when it is activated.
    if (row.admitted != Instant{} && row.max_execution > Duration{0}) {
      row.ran = reason == "MaximumExecutionTimeExceeded" ? Duration{0} : row.ran + (state_.now - row.admitted);
    }
    row.pods_ready = row.pods_lost = Instant{};
    row.quota_reserved = row.admitted = row.retry_at = row.wait_deadline = row.saved = row.min_runtime_until =
        Instant{};
    row.not_before = backoff > Duration{0} ? state_.now + backoff : Instant{};
    row.reason = reason;
  });
  rows_.publish(Event::What::kRequeued, uid);
  specs_.apply_next(uid);
}

void Transitions::finish(const WorkloadUid& uid, bool succeeded) {
  QM_ASSERT(!state_.tables.workloads.find(uid)->ended());
  history_.learn_run(state_.workload(uid), forecast::LifeTable::End::kEnded);
  history_.forget_estimate(uid);
  rows_.update(uid, [&](Workload& row) {
    row.phase = Phase::kFinished;
    row.finished = state_.now;
    row.succeeded = succeeded;
    row.usage.clear();
    row.except([](Exceptions& e) { e.nodes.clear(); });
    row.gated = false;
    row.not_before = row.retry_at = row.wait_deadline = Instant{};
    row.reason = succeeded ? "Succeeded" : "Failed";
  });
  rows_.publish(Event::What::kFinished, uid);
}

void Transitions::cancel_now(const WorkloadUid& uid, std::string reason) {
  QM_ASSERT(!state_.tables.workloads.find(uid)->ended());
  history_.learn_run(state_.workload(uid), forecast::LifeTable::End::kCutOff);
  history_.forget_estimate(uid);
  rows_.update(uid, [&](Workload& row) {
    row.phase = Phase::kCancelled;
    row.finished = state_.now;
    row.usage.clear();
    row.except([](Exceptions& e) { e.nodes.clear(); });
    row.gated = false;
    row.not_before = row.retry_at = row.wait_deadline = Instant{};
    row.reason = reason;
  });
  rows_.publish(Event::What::kCancelled, uid);
}

void Transitions::job_deleted(const WorkloadUid& uid) {
  const Workload& w = state_.workload(uid);
  if (w.job_deleted) return;
  rows_.update(uid, [](Workload& row) { row.job_deleted = true; });
  if (w.ended()) return;
  // No release is reported for pods that another scheduler bound.
  if (w.external_scheduler) return cancel_now(uid, w.cancelled ? w.cancel_reason() : "JobDeleted");
  if (w.phase == Phase::kEvicting) return;
  if (w.phase == Phase::kAdmitted) {
    // The garbage collector deletes the pods; quota is held until placement reports that they are gone.
    evict(uid, "JobDeleted", "its job was deleted", state_.now + state_.options.eviction_grace);
  } else {
    cancel_now(uid, "JobDeleted");
  }
}

void Transitions::repeat(const WorkloadUid& uid) {
  rows_.update(uid, [&](Workload& row) { row.retry_at = state_.now + state_.options.retry_interval; });
  rows_.publish(Event::What::kRepeated, uid);
}

void Transitions::forget(const WorkloadUid& uid) {
  const Workload& w = state_.workload(uid);
  QM_ASSERT(w.ended() && w.job_deleted, "workload {} is {}", uid, name_of(w.phase));
  rows_.publish(Event::What::kForgotten, uid);
  reindex(state_.indexes, w, marks_of(state_, w), {});
  state_.indexes.decisions.drop(uid);
  state_.tables.workloads.erase(uid);
}

}  // namespace qm::admission
