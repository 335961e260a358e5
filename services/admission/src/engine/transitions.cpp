// Phase transitions: the valid ones, and the events and intents of each.
#include "qm/base/assert.hpp"
#include "update.hpp"

namespace qm::admission {

void Engine::publish(Event::What what, const WorkloadUid& uid) {
  Workload& w = tables_.workloads.edit(uid);
  ++w.version;
  out_.events.push_back({what, w, now_});
}

void Engine::add_intent(const char* kind, const WorkloadUid& uid, std::string object, std::string reason) {
  update(uid, [](Workload& w) {
    ++w.intents;
    ++w.open_intents;
  });
  const Workload& w = *tables_.workloads.find(uid);
  // Keyed by the name of the job, like its creation: a creation with a lost result completes before the job is deleted.
  // Otherwise its retry would create the job again.
  out_.intents.push_back({kind, fmt::format("{}/{}/{}/{}", kind, uid, w.attempt, w.intents),
                          fmt::format("{}/{}", w.spec.ns, w.spec.name), w, std::move(object), std::move(reason)});
}

void Engine::reserve(const WorkloadUid& uid, const Assignment& assignment) {
  const Workload& w = *tables_.workloads.find(uid);
  QM_ASSERT(w.phase == Phase::kPending, "workload {} is {}", uid, name_of(w.phase));
  update(uid, [&](Workload& row) {
    row.phase = Phase::kQuotaReserved;
    row.flavors = assignment.flavors;
    row.usage = assignment.usage;
    row.counts = assignment.counts;
    row.quota_reserved = now_;
    row.quota_position = static_cast<std::uint16_t>(std::min<std::size_t>(++reserved_, UINT16_MAX));
    row.answer = Answer::kNone;
    row.reservation.clear();
    row.short_reason.clear();
    row.checks = checks_of(row, row.flavors);
    row.gated = row.spec.pods_expected || !row.checks.empty() ||
                (options_.wait_for_pods_ready && options_.wait_for_pods_ready->block_admission);
    row.retry_at = row.gated ? Instant{} : now_ + options_.retry_interval;
    row.wait_deadline = Instant{};
    row.reason = "QuotaReserved";
  });
  enter_usage(w);
  publish(Event::What::kQuotaReserved, uid);
  if (w.external_scheduler && !w.gated) admit(uid);
}

void Engine::pods_deleted(const WorkloadUid& uid) {
  const auto& order = *tables_.workloads.find(uid)->eviction;
  const Duration wait = order.requeue_at > now_         ? order.requeue_at - now_
                        : order.reason == "StartFailed" ? options_.backoff
                                                        : Duration{0};
  release(uid, order.reason, wait);
}

/// Releases the quota of ended pods: a pod set is counted by its pods with work left. Ended pods do not run again.
void Engine::pods_ended(const WorkloadUid& uid, std::int32_t ended) {
  const Workload& w = *tables_.workloads.find(uid);
  const auto* queue = tables_.cluster_queues.find(w.cluster_queue);
  if (queue != nullptr && queue->volcano) return;  // Volcano counts a gang whole
  const auto all = w.running_pods();
  if (w.spec.kind != "Job" || w.spec.pod_sets.size() != 1 || ended <= w.ended_pods || ended >= all) return;
  update(uid, [&](Workload& row) {
    for (auto& [at, amount] : row.usage.edit()) amount = amount / (all - row.ended_pods) * (all - ended);
    row.ended_pods = ended;
  });
  publish(Event::What::kPodsEnded, uid);
}

void Engine::admit(const WorkloadUid& uid) {
  QM_ASSERT(tables_.workloads.find(uid)->phase == Phase::kQuotaReserved);
  const Duration kept = minimum_run_of(*tables_.workloads.find(uid));
  hold_against(uid, true);
  update(uid, [&](Workload& row) {
    row.phase = Phase::kAdmitted;
    row.admitted = now_;
    row.min_runtime_until = kept > Duration{0} ? now_ + kept : Instant{};
    row.retry_at = Instant{};
    row.wait_deadline = Instant{};
    row.short_streak = 0;
    row.promised_attempt = 0;
    row.promised_until = Instant{};
    row.reason = "Admitted";
  });
  publish(Event::What::kAdmitted, uid);
  add_intent("job.unsuspend", uid);
}

void Engine::evict(const WorkloadUid& uid, std::string reason, std::string message, Instant deadline,
                   Instant requeue_at) {
  const Workload& w = *tables_.workloads.find(uid);
  if (w.phase == Phase::kQuotaReserved) {  // it has no pods yet
    update(uid, [&](Workload& row) { row.patient = requeue_at > now_; });
    return release(uid, reason, requeue_at > now_ ? requeue_at - now_ : Duration{0});
  }
  if (w.phase != Phase::kAdmitted) return;
  update(uid, [&](Workload& row) {
    row.phase = Phase::kEvicting;
    row.eviction = Eviction{reason, message, deadline, now_, row.spec.checkpoints, requeue_at};
    row.patient = requeue_at != Instant{};
    row.retry_at = now_ + options_.retry_interval;
    row.wait_deadline = Instant{};
    row.reason = reason;
  });
  publish(Event::What::kEvicting, uid);
  if (!w.cancelled && !w.job_deleted) add_intent("job.suspend", uid);
}

void Engine::release(const WorkloadUid& uid, std::string reason, Duration backoff) {
  const Workload& w = *tables_.workloads.find(uid);
  QM_ASSERT(w.holds_quota(), "workload {} is {}", uid, name_of(w.phase));
  if (w.cancelled || w.job_deleted) return cancel_now(uid, w.cancelled ? w.cancel_reason() : "JobDeleted");
  const Lead where = lead(w.spec);
  learn_run(w, forecast::LifeTable::End::kCutOff);
  update(uid, [&](Workload& row) {
    row.phase = Phase::kPending;
    ++row.attempt;
    row.cluster_queue = where.queue;
    row.flavors.clear();
    row.usage.clear();
    row.counts.clear();
    row.ended_pods = row.quota_position = 0;
    row.except([](Exceptions& e) { e.scale_up_to = e.scaled_from = 0; });
    row.eviction.reset();
    row.answer = Answer::kNone;
    row.reservation.clear();
    row.queued = now_;
    row.checks.clear();
    row.gated = false;
    // After it exceeded its limit, its time restarts from zero when it is activated.
    if (row.admitted != Instant{} && row.max_execution > Duration{0}) {
      row.ran = reason == "MaximumExecutionTimeExceeded" ? Duration{0} : row.ran + (now_ - row.admitted);
    }
    row.pods_ready = row.pods_lost = Instant{};
    row.quota_reserved = row.admitted = row.retry_at = row.wait_deadline = row.saved = row.min_runtime_until =
        Instant{};
    row.not_before = backoff > Duration{0} ? now_ + backoff : Instant{};
    row.reason = reason;
  });
  publish(Event::What::kRequeued, uid);
  refresh_next_spec(uid);
}

/// Placement knows a later attempt, or has answered one that is pending here: the database lost the commits in which it
/// began. That attempt ends, with its pods in the cluster, and the next attempt has a greater number.
void Engine::catch_up(const PlacementUpdated& c) {
  const WorkloadUid uid = c.uid;
  const Workload* w = tables_.workloads.find(uid);
  if (w == nullptr || w->ended() || c.attempt < w->attempt) return;
  const bool waits = w->phase == Phase::kPending || w->phase == Phase::kRejected;
  if (c.attempt == w->attempt && (!waits || c.state == Answer::kNone || c.state == Answer::kShort)) return;
  update(uid, [&](Workload& row) { row.attempt = c.attempt; });
  switch (w->phase) {
    case Phase::kPending:
    case Phase::kRejected:
      update(uid, [&](Workload& row) {
        ++row.attempt;
        row.answer = Answer::kNone;
      });
      publish(w->phase == Phase::kPending ? Event::What::kUpdated : Event::What::kRejected, uid);
      break;
    case Phase::kQuotaReserved:
      release(uid, "AttemptLost", Duration{0});
      break;
    case Phase::kAdmitted:
      evict(uid, "AttemptLost", fmt::format("attempt {} had started in commits that the database lost", c.attempt),
            now_ + options_.eviction_grace);
      break;
    case Phase::kEvicting:
      publish(Event::What::kEvicting, uid);
      break;
    case Phase::kFinished:
    case Phase::kCancelled:
      break;
  }
}

void Engine::finish(const WorkloadUid& uid, bool succeeded) {
  QM_ASSERT(!tables_.workloads.find(uid)->ended());
  learn_run(*tables_.workloads.find(uid), forecast::LifeTable::End::kEnded);
  forget_estimate(uid);
  update(uid, [&](Workload& row) {
    row.phase = Phase::kFinished;
    row.finished = now_;
    row.succeeded = succeeded;
    row.usage.clear();
    row.gated = false;
    row.not_before = row.retry_at = row.wait_deadline = Instant{};
    row.reason = succeeded ? "Succeeded" : "Failed";
  });
  publish(Event::What::kFinished, uid);
}

void Engine::cancel_now(const WorkloadUid& uid, std::string reason) {
  QM_ASSERT(!tables_.workloads.find(uid)->ended());
  learn_run(*tables_.workloads.find(uid), forecast::LifeTable::End::kCutOff);
  forget_estimate(uid);
  update(uid, [&](Workload& row) {
    row.phase = Phase::kCancelled;
    row.finished = now_;
    row.usage.clear();
    row.gated = false;
    row.not_before = row.retry_at = row.wait_deadline = Instant{};
    row.reason = reason;
  });
  publish(Event::What::kCancelled, uid);
}

void Engine::job_deleted(const WorkloadUid& uid) {
  const Workload& w = *tables_.workloads.find(uid);
  if (w.job_deleted) return;
  update(uid, [](Workload& row) { row.job_deleted = true; });
  if (w.ended()) return;
  // No release is reported for pods that another scheduler bound.
  if (w.external_scheduler) return cancel_now(uid, w.cancelled ? w.cancel_reason() : "JobDeleted");
  if (w.phase == Phase::kEvicting) return;
  if (w.phase == Phase::kAdmitted) {
    // The garbage collector deletes the pods; quota is held until placement reports that they are gone.
    evict(uid, "JobDeleted", "its job was deleted", now_ + options_.eviction_grace);
  } else {
    cancel_now(uid, "JobDeleted");
  }
}

// Removes deleted queues without holders of quota. Only a queue with changed usage can have reached that state.
void Engine::close_queues() {
  bool gone = false;
  for (const auto& name : touched_) {
    const auto* queue = tables_.cluster_queues.find(name);
    if (queue == nullptr || !queue->closing || indexes_.holders.contains(name)) continue;
    tables_.cluster_queues.erase(name);
    gone = true;
  }
  if (!gone) return;
  rebuild();
  // Workloads that were pending for the terminating queue are now pending for a queue that does not exist.
  std::vector<WorkloadUid> waiting;
  for (const auto& [uid, w] : tables_.workloads) {
    if (w.phase == Phase::kPending && *w.reason == "QueueTerminating") waiting.push_back(uid);
  }
  for (const auto& uid : waiting) {
    const auto where = lead(tables_.workloads.find(uid)->spec);
    if (!where.obstacle || where.obstacle->code == "QueueTerminating") continue;
    update(uid, [&](Workload& row) { row.reason = where.obstacle->code; });
    publish(Event::What::kQueued, uid);
  }
}

void Engine::repeat(const WorkloadUid& uid) {
  update(uid, [&](Workload& row) { row.retry_at = now_ + options_.retry_interval; });
  publish(Event::What::kRepeated, uid);
}

void Engine::forget(const WorkloadUid& uid) {
  const Workload& w = *tables_.workloads.find(uid);
  QM_ASSERT(w.ended() && w.job_deleted, "workload {} is {}", uid, name_of(w.phase));
  publish(Event::What::kForgotten, uid);
  move(indexes_, w, marks_of(w), {});
  indexes_.decisions.drop(uid);
  tables_.workloads.erase(uid);
}

}  // namespace qm::admission
