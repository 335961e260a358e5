// Handlers of the commands. Scheduling follows from the marks that the changes leave.
#include "cause.hpp"
#include "qm/base/assert.hpp"
#include "update.hpp"

#include <algorithm>

namespace qm::admission {

namespace {
constexpr int kPassesPerStep = 64;
}  // namespace

Output Engine::step(std::span<const Command> batch, Instant now) {
  QM_ASSERT(now >= now_, "time went back from {} to {}", micros(now_), micros(now));
  now_ = now;
  out_ = {};
  reserved_ = 0;
  touched_.clear();
  scale_up_requested_.clear();
  // Marks are valid within one step: its decisions depend only on the tables and its batch.
  dirty_.clear();
  drop_decisions();
  apply_windows();
  apply_aging();
  for (command_ = 0; command_ < batch.size(); ++command_) {
    std::visit([&](const auto& command) { on(command); }, batch[command_]);
  }
  const auto relabelled = std::exchange(relabelled_, {});
  resolve_needed_ ? resolve_all() : resolve_of(relabelled);
  drain_windows();
  fire_timers();
  for (const int tree : indexes_.decisions.overdue(decided_, now_)) dirty_.insert(tree);
  extend_holds();
  review_budgets();
  // The free amounts of budgets also change with time.
  if (tables_.budgets.size() > 0) {
    for (const auto& order : indexes_.scaling_up)
      dirty_.insert(indexes_.decisions.tree_of(tables_.workloads.find(order.uid)->cluster_queue));
  }
  // A pass may requeue workloads and mark their tree again. The bound limits one step under any policies.
  for (int pass = 0; pass < kPassesPerStep && !dirty_.empty(); ++pass) {
    const int tree = *dirty_.begin();
    dirty_.erase(dirty_.begin());
    if (tree >= 0) schedule(tree);
    review_budgets();
  }
  open_gates();
  report_scale_up();
  for (auto& [uid, preemptors] : indexes_.decisions.take_preemptors()) {
    if (tables_.workloads.contains(uid)) tables_.workloads.edit(uid).preemptors = std::move(preemptors);
  }
  for (const auto& queue : touched_) {
    const auto held = indexes_.held.find(queue);
    if (held == indexes_.held.end()) continue;
    for (const auto& [at, amount] : held->second) {
      const auto used = indexes_.decisions.used(queue, at).value_or(amount);  // quota that no queue has is not counted
      QM_ASSERT(used == amount, "queue {} flavor {} resource {}: {} used, {} held", queue, at.flavor, at.resource, used,
                amount);
    }
  }
  close_queues();
  if (!indexes_.timers.empty()) out_.wake_at = indexes_.timers.begin()->first;
  const auto wake = [&](Instant t) { out_.wake_at = out_.wake_at ? std::min(*out_.wake_at, t) : t; };
  if (!indexes_.holds_due.empty()) wake(indexes_.holds_due.begin()->first);
  for (const auto& [name, waiting] : indexes_.lacks) {
    if (const auto next = next_period(name)) wake(*next);
  }
  if (indexes_.quota_changes) wake(*indexes_.quota_changes);
  if (const auto alarm = indexes_.decisions.alarm(now_)) wake(*alarm);
  return std::move(out_);
}

void Engine::reply(Result<AnyReply> result) { out_.replies.push_back({command_, std::move(result)}); }

const Workload* Engine::current_attempt(const WorkloadUid& uid, std::int32_t attempt) {
  const Workload* w = tables_.workloads.find(uid);
  if (w == nullptr) {
    ++counters_.unknown;
    return nullptr;
  }
  if (w->attempt != attempt || w->ended()) {
    ++counters_.stale;
    return nullptr;
  }
  return w;
}

void Engine::on(const ApplyObjects& c) {
  ApplyReply answer{c.applied, c.warnings};
  const auto known_queue = [&](const QueueName& name) {
    return tables_.cluster_queues.contains(name) ||
           std::any_of(c.cluster_queues.begin(), c.cluster_queues.end(), [&](const auto& q) { return q.name == name; });
  };
  const auto known_flavor = [&](const FlavorName& name) {
    return tables_.flavors.contains(name) ||
           std::any_of(c.flavors.begin(), c.flavors.end(), [&](const auto& f) { return f.name == name; });
  };
  for (const auto& queue : c.cluster_queues) {
    for (const auto& group : queue.groups) {
      for (const auto& flavor : group.flavors) {
        if (known_flavor(flavor.flavor)) continue;
        answer.warnings.push_back(
            fmt::format("ClusterQueue/{}: flavor {} does not exist; nothing is admitted under it "
                        "until a ResourceFlavor of that name is applied",
                        queue.name, flavor.flavor));
      }
    }
  }
  for (const auto& queue : c.local_queues) {
    if (known_queue(queue.cluster_queue)) continue;
    answer.warnings.push_back(
        fmt::format("LocalQueue/{}/{}: ClusterQueue {} does not exist; its workloads are pending until "
                    "it is applied",
                    queue.ns, queue.name, queue.cluster_queue));
  }
  // A name resolves to one queue: a ClusterQueue takes precedence over a Queue of Volcano.
  const auto left_aside = [&](const ClusterQueue& queue) {
    const auto has = [&](const ClusterQueue& other) { return other.name == queue.name && !other.volcano; };
    const auto* known = tables_.cluster_queues.find(queue.name);
    return queue.volcano && ((known != nullptr && has(*known)) || std::ranges::any_of(c.cluster_queues, has));
  };
  for (const auto& queue : c.cluster_queues) {
    if (!left_aside(queue)) continue;
    answer.warnings.push_back(
        fmt::format("Queue/{0}: a ClusterQueue {0} exists, so this Queue is ignored; use another name", queue.name));
  }
  if (!c.dry_run) {
    // An update without a new spec, such as a status update, changes no decision.
    const auto take = [&](auto& table, const auto& key, const auto& object) {
      const auto* known = table.find(key);
      auto like = object;
      if (known != nullptr) like.source = known->source;
      if (known == nullptr || !(*known == like)) resolve_needed_ = true;
      table.insert(key, object);
    };
    for (const auto& queue : c.cluster_queues) {
      if (!left_aside(queue)) take(tables_.cluster_queues, queue.name, queue);
    }
    for (const auto& queue : c.local_queues) take(tables_.local_queues, std::pair(queue.ns, queue.name), queue);
    for (const auto& cohort : c.cohorts) take(tables_.cohorts, cohort.name, cohort);
    for (const auto& flavor : c.flavors) take(tables_.flavors, flavor.name, flavor);
    for (const auto& priority : c.priority_classes) {
      take(tables_.priority_classes, std::pair(priority.name, priority.workload_only), priority);
    }
    for (const auto& ns : c.namespaces) {
      const auto* known = tables_.namespaces.find(ns.name);
      if (known == nullptr || known->labels != ns.labels) relabelled_.insert(ns.name);
      tables_.namespaces.insert(ns.name, ns);
    }
    for (const auto& check : c.admission_checks) take(tables_.admission_checks, check.name, check);
  }
  reply(std::move(answer));
}

void Engine::remove_queue(const QueueName& name) {
  const auto* queue = tables_.cluster_queues.find(name);
  if (queue == nullptr || !queue->from_cluster || queue->closing) return;
  tables_.cluster_queues.edit(name).closing = true;
  touched_.insert(name);
  resolve_needed_ = true;
}

void Engine::on(const ObjectDeleted& c) {
  const auto drop = [&](auto& table, const auto& key) {
    const auto* row = table.find(key);
    if (row == nullptr || !row->from_cluster) return;
    table.erase(key);
    resolve_needed_ = true;
  };
  if (c.kind == "ClusterQueue" || c.kind == "Queue") {
    const auto* queue = tables_.cluster_queues.find(QueueName(c.name));
    if (queue != nullptr && queue->volcano.has_value() == (c.kind == "Queue")) remove_queue(queue->name);
    return;
  }
  if (c.kind == "LocalQueue") return drop(tables_.local_queues, std::pair(c.ns, c.name));
  if (c.kind == "Cohort") return drop(tables_.cohorts, c.name);
  if (c.kind == "ResourceFlavor") return drop(tables_.flavors, FlavorName(c.name));
  if (c.kind == "Namespace") {
    const auto* known = tables_.namespaces.find(Namespace(c.name));
    if (known == nullptr || !known->from_cluster) return;
    relabelled_.insert(known->name);
    return tables_.namespaces.erase(Namespace(c.name));
  }
  if (c.kind == "AdmissionCheck") return drop(tables_.admission_checks, c.name);
  if (c.kind == "WorkloadPriorityClass") return drop(tables_.priority_classes, std::pair(c.name, true));
  if (c.kind == "PriorityClass") return drop(tables_.priority_classes, std::pair(c.name, false));
}

void Engine::on(const ObjectsSynced& c) {
  std::vector<ObjectDeleted> gone;
  const auto look = [&](const auto& row, const Namespace& ns, const std::string& name) {
    if (row.from_cluster && !c.names.contains({ns, name})) gone.push_back({c.kind, ns, name});
  };
  if (c.kind == "ClusterQueue" || c.kind == "Queue") {
    for (const auto& [name, row] : tables_.cluster_queues) {
      if (row.volcano.has_value() == (c.kind == "Queue")) look(row, {}, name.value());
    }
  } else if (c.kind == "LocalQueue") {
    for (const auto& [key, row] : tables_.local_queues) look(row, key.first, key.second);
  } else if (c.kind == "Cohort") {
    for (const auto& [name, row] : tables_.cohorts) look(row, {}, name);
  } else if (c.kind == "ResourceFlavor") {
    for (const auto& [name, row] : tables_.flavors) look(row, {}, name.value());
  } else if (c.kind == "AdmissionCheck") {
    for (const auto& [name, row] : tables_.admission_checks) look(row, {}, name);
  } else if (c.kind == "Namespace") {
    for (const auto& [name, row] : tables_.namespaces) look(row, {}, name.value());
  } else {
    for (const auto& [key, row] : tables_.priority_classes) {
      if (key.second == (c.kind == "WorkloadPriorityClass")) look(row, {}, key.first);
    }
  }
  for (const auto& object : gone) on(object);
}

void Engine::on(const JobUpdated& c) {
  const auto& uid = c.spec.uid;
  const Workload* known = tables_.workloads.find(uid);
  const bool busy = known != nullptr && known->open_intents > 0;
  if (known == nullptr) {
    if (c.complete || c.failed) return;
    if (const std::pair key{c.spec.ns, c.spec.name}; tables_.submissions.contains(key)) tables_.submissions.erase(key);
    const Spec spec = c.spec;
    const Lead where = lead(spec);
    const auto priority = priority_of(spec);
    update(uid, [&](Workload& w) {
      w.spec = spec;
      w.spec.priority = priority.value_or(0);
      w.priority_unknown = !priority;
      if (w.spec.submitted == Instant{}) w.spec.submitted = now_;
      // An attempt that an earlier instance of this service wrote to the job is over: the next one must be greater.
      w.attempt = std::max(c.attempt + 1, 1);
      w.cluster_queue = where.queue;
      w.queue_is_direct = where.direct;
      w.queued = now_;
      w.external_scheduler = c.external_scheduler;
      w.except([&](Exceptions& e) { e.refused = c.refused; });
      w.max_execution = c.max_execution;
      w.spec.pods_expected = c.pods_expected;
      w.waiting_time = c.waiting_time;
      w.reason = waiting_reason(w, where.obstacle);
      w.planned = planned_run(w);
    });
    if (!c.rejected.empty()) {
      reject(uid, c.rejected);
    } else {
      publish(Event::What::kQueued, uid);
    }
    if (where.direct) {
      add_intent("event.create", uid,
                 fmt::format("queue {} is a ClusterQueue, used although namespace {} has no LocalQueue "
                             "of that name; create one "
                             "that points to it",
                             c.spec.queue, c.spec.ns));
    }
    known = tables_.workloads.find(uid);
  }
  if (known->ended()) return;
  if (c.complete || c.failed) return finish(uid, c.complete);
  if (known->refused() != c.refused) {
    update(uid, [&](Workload& row) { row.except([&](Exceptions& e) { e.refused = c.refused; }); });
    refresh_reason(uid);
  }
  if (c.spec_active) on_active(uid, *c.spec_active);
  // Of an elastic Job, the pods that have to run together must be ready.
  const auto together =
      known->exceptions && known->exceptions->scaled_from > 0 ? known->exceptions->scaled_from : known->counted_pods();
  on_pods_ready(uid, (c.pods_ready || (c.elastic && c.ready >= together)) && c.attempt == known->attempt);
  if (c.rejected.empty()) on_group(c);
  if (known->ended()) return;
  follow(c);
  if (known->ended()) return;
  note_print(c);
  // A workload of pods reports attempt 0 once no ungated pod is left.
  const bool same = c.attempt == known->attempt || (is_pods(*known->spec.kind) && c.attempt == 0);
  const bool quiet = c.suspended && c.active == 0 && same;
  if (known->external_scheduler && known->phase == Phase::kEvicting && quiet) return pods_deleted(uid);
  if (known->phase == Phase::kAdmitted && !c.suspended && c.attempt == known->attempt) scale(c);
  if (busy) return;
  // Reconciles the cluster with the decision, whatever caused the difference.
  const bool held_back =
      known->phase == Phase::kPending || known->phase == Phase::kQuotaReserved || known->phase == Phase::kRejected;
  if (!c.suspended && held_back) {
    add_intent("job.suspend", uid);
  } else if (c.suspended && known->phase == Phase::kAdmitted) {
    add_intent("job.unsuspend", uid);
  } else if (!c.suspended && known->phase == Phase::kEvicting && !known->cancelled) {
    add_intent("job.suspend", uid);
  }
}

void Engine::on(const JobDeleted& c) {
  if (tables_.workloads.contains(c.uid)) job_deleted(c.uid);
}

void Engine::on(const JobsSynced& c) {
  std::vector<WorkloadUid> gone;
  for (const auto& [uid, w] : tables_.workloads) {
    const bool meant = c.pods ? is_pods(w.spec.kind) : w.spec.kind == c.kind;
    if (!w.job_deleted && meant && !c.uids.contains(uid)) gone.push_back(uid);
  }
  for (const auto& uid : gone) job_deleted(uid);
  // A complete list arrives at each start and after gaps of the watch: schedules each tree once.
  on(Reconsider{});
}

void Engine::on(const Reconsider&) {
  for (const auto& [name, queue] : tables_.cluster_queues) dirty_.insert(indexes_.decisions.tree_of(name));
}

void Engine::on(const PlacementUpdated& c) {
  catch_up(c);
  const Workload* w = current_attempt(c.uid, c.attempt);
  if (w == nullptr) return;
  const bool repeated = w->answer == c.state;
  update(c.uid, [&](Workload& row) {
    row.answer = c.state;
    row.reservation = c.reservation;
    row.short_reason = c.state == Answer::kShort ? c.reason : "";
  });
  switch (w->phase) {
    case Phase::kQuotaReserved:
      if (w->gated) break;  // placement has no request yet
      if (c.state == Answer::kReserved || c.state == Answer::kBound) {
        // A reservation that has expired by now does not admit; the request is published again in time.
        if (c.expires == Instant{} || c.expires > now_) admit(c.uid);
      } else if (c.state == Answer::kShort && !repeated) {
        const Instant until = std::max({w->promised_until, now_ + options_.short_grace, victims_deadline(*w)});
        update(c.uid, [&](Workload& row) { row.wait_deadline = until; });
      } else if (c.state == Answer::kExpired || c.state == Answer::kReleased) {
        // It ended before its answer was handled, or in lost commits; placement answers each attempt once.
        release(c.uid, c.state == Answer::kExpired ? "ReservationExpired" : "AttemptReleased", Duration{0});
      }
      break;
    case Phase::kAdmitted:
      if (c.state == Answer::kExpired) {
        evict(c.uid, "ReservationExpired", "the reservation ended before every pod was bound",
              now_ + options_.eviction_grace);
      } else if (c.state == Answer::kReleased) {
        // Usually the job has just ended, and its event follows.
        update(c.uid, [&](Workload& row) { row.wait_deadline = now_ + options_.pods_gone_grace; });
      } else if (c.state == Answer::kBound && !repeated) {
        out_.events.push_back({Event::What::kBound, *w, now_});
      }
      break;
    case Phase::kEvicting:
      if (c.state == Answer::kReleased) pods_deleted(c.uid);
      break;
    case Phase::kPending:
    case Phase::kRejected:
    case Phase::kFinished:
    case Phase::kCancelled:
      break;
  }
}

void Engine::on(const PromiseUpdated& c) {
  const Workload* w = tables_.workloads.find(c.uid);
  if (w == nullptr) {
    ++counters_.unknown;
    return;
  }
  // A promise is for a shape on the demand list, which may be of an earlier attempt of the same wait.
  const bool waits = w->phase == Phase::kPending || w->phase == Phase::kQuotaReserved;
  if (!waits || c.attempt > w->attempt || c.attempt < w->attempt - w->short_streak) {
    ++counters_.stale;
    return;
  }
  const bool stands = !c.withdrawn && c.ready_by > now_;
  update(c.uid, [&](Workload& row) {
    row.promised_attempt = c.attempt;
    row.promised_until = stands ? c.ready_by : Instant{};
    if (row.phase == Phase::kPending && stands && !row.patient) row.not_before = Instant{};
    if (row.phase == Phase::kQuotaReserved && row.answer == Answer::kShort) {
      row.wait_deadline = std::max(stands ? c.ready_by : now_, victims_deadline(row));
    }
  });
}

void Engine::on(const CheckpointUpdated& c) {
  const Workload* w = tables_.workloads.find(c.uid);
  if (w == nullptr || w->ended() || c.uri.empty()) return;
  if (c.attempt > w->attempt || c.attempt < w->resume_attempt || c.uri == w->resume_uri) return;
  update(c.uid, [&](Workload& row) {
    row.resume_uri = c.uri;
    row.resume_attempt = c.attempt;
    if (c.attempt == row.attempt) row.saved = now_;
  });
}

/// Placement repeats an item while its workload is pending in that attempt; the back-off of an attempt ends only once.
void Engine::on(const RequeueListUpdated& c) {
  for (const auto& [uid, attempt] : c.items) {
    const Workload* w = tables_.workloads.find(uid);
    if (w == nullptr || w->attempt != attempt || w->phase != Phase::kPending) continue;
    if (w->not_before != Instant{} && !w->patient) update(uid, [](Workload& row) { row.not_before = Instant{}; });
  }
}

void Engine::on(const EvictionRequested& c) {
  // Records the checkpoint even if the attempt that saved it is over.
  on(CheckpointUpdated{c.uid, c.attempt, c.resume_uri});
  const Workload* w = current_attempt(c.uid, c.attempt);
  if (w == nullptr) return;
  if (w->phase == Phase::kEvicting) {
    if (c.deadline == Instant{} || c.deadline >= w->eviction->deadline) return;
    update(c.uid, [&](Workload& row) { row.eviction.edit().deadline = c.deadline; });
    publish(Event::What::kRepeated, c.uid);
    return;
  }
  evict(c.uid, c.reason, c.message.empty() ? fmt::format("requested by {}", c.from) : c.message,
        c.deadline == Instant{} ? now_ + options_.eviction_grace : c.deadline);
}

void Engine::on(const Submit& c) {
  const std::string job_name = fmt::format("{}/{}", c.ns, c.name);
  if (const Workload* w = find(c.ns, c.name); w != nullptr && !w->job_deleted) {
    return reply(fail({Code::kAlreadyExists, fmt::format("job {} exists and is {}", job_name, name_of(w->phase)),
                       "metadata.name", "choose another name, or cancel that job first"}));
  }
  if (const auto* s = tables_.submissions.find({c.ns, c.name}); s != nullptr && !s->failed) {
    return reply(fail({Code::kAlreadyExists, fmt::format("job {} is being created", job_name), "metadata.name",
                       "choose another name"}));
  }
  Spec asked;
  asked.ns = c.ns;
  asked.queue = c.queue;
  asked.priority_class = c.priority_class;
  const Lead where = lead(asked);
  if (where.queue.empty() && where.obstacle && where.obstacle->code != "QueueStopped") {
    return reply(fail({Code::kNotFound, where.obstacle->message, fmt::format("metadata.labels[{}]", words::kQueueLabel),
                       where.obstacle->remedy}));
  }
  if (!priority_of(asked)) {
    auto cause = unknown_priority(c.priority_class);
    return reply(fail({Code::kNotFound, std::move(cause.message), {}, std::move(cause.remedy)}));
  }
  Submission row{c.ns, c.name, c.queue, c.team, fmt::format("job.create/{}/{}", job_name, micros(now_)),
                 now_, false,  {}};
  Intent intent{"job.create", row.intent, job_name, {}, c.job};
  intent.workload.spec.ns = c.ns;
  intent.workload.spec.name = c.name;
  out_.intents.push_back(std::move(intent));
  tables_.submissions.insert({c.ns, c.name}, std::move(row));
  submissions_end_ = std::min(submissions_end_, now_ + options_.retention);
  reply(SubmitReply{c.ns, c.name});
}

void Engine::on(const Cancel& c) {
  const Workload* w = c.uid.empty() ? find(c.ns, c.name) : tables_.workloads.find(c.uid);
  if (w == nullptr) {
    if (const auto* s = tables_.submissions.find({c.ns, c.name}); s != nullptr) {
      const auto why = s->failed ? "was not created: " + s->error : "is still being created";
      const auto* remedy =
          s->failed ? "nothing is left to cancel; correct it and submit it again" : "cancel it again in a few seconds";
      return reply(fail({Code::kFailedPrecondition, fmt::format("job {}/{} {}", c.ns, c.name, why), {}, remedy}));
    }
    return reply(fail({Code::kNotFound,
                       c.uid.empty() ? fmt::format("workload {}/{} is not known", c.ns, c.name)
                                     : fmt::format("no workload has the uid {}", c.uid),
                       c.uid.empty() ? "name" : "uid", "list the workloads of the namespace"}));
  }
  const WorkloadUid uid = w->spec.uid;
  if (w->phase == Phase::kFinished) {
    return reply(fail({Code::kFailedPrecondition,
                       fmt::format("workload {}/{} has finished", w->spec.ns, w->spec.name),
                       {},
                       "delete its job if it is no longer wanted"}));
  }
  if (w->phase == Phase::kCancelled) return reply(CancelReply{w->phase});
  if (!w->cancelled) {
    const std::string why = c.reason.empty() ? "Cancelled" : c.reason;
    update(uid, [&](Workload& row) {
      row.cancelled = true;
      row.except([&](Exceptions& e) { e.cancel_reason = why; });
    });
    if (w->phase == Phase::kAdmitted) {
      evict(uid, "Cancelled", why, now_ + options_.eviction_grace);
    } else if (w->phase != Phase::kEvicting) {
      cancel_now(uid, why);
    }
    if (!w->job_deleted) add_intent("job.delete", uid);
  }
  reply(CancelReply{w->phase});
}

void Engine::on(const IntentOutcome& c) {
  if (c.kind == "job.create") {
    const auto slash = c.subject.find('/');
    const std::pair key{Namespace(c.subject.substr(0, slash)), c.subject.substr(slash + 1)};
    const auto* s = tables_.submissions.find(key);
    if (s == nullptr || s->intent != c.id || c.ok) return;
    auto& row = tables_.submissions.edit(key);
    row.failed = true;
    row.error = c.error;
    return;
  }
  const WorkloadUid uid(c.subject);
  const Workload* w = tables_.workloads.find(uid);
  if (w == nullptr) {
    ++counters_.unknown;
    return;
  }
  update(uid, [&](Workload& row) { row.open_intents = std::max(0, row.open_intents - 1); });
  if (w->ended()) return;
  if (c.complete || c.failed) return finish(uid, c.complete);
  if (c.kind == "job.suspend" && c.quiet && w->external_scheduler && w->phase == Phase::kEvicting &&
      c.attempt == w->attempt) {
    return pods_deleted(uid);
  }
  if (c.ok || c.attempt != w->attempt) return;
  if (c.kind == "job.unsuspend" && w->phase == Phase::kAdmitted) {
    evict(uid, "StartFailed", c.error, now_ + options_.eviction_grace);
  }
}

void Engine::fire_timers() {
  std::vector<WorkloadUid> due;
  for (const auto& [at, uid] : indexes_.timers) {
    if (at > now_) break;
    due.push_back(uid);
  }
  for (const auto& uid : due) {
    const Workload* w = tables_.workloads.find(uid);
    const bool over = w->wait_deadline != Instant{} && w->wait_deadline <= now_;
    switch (w->phase) {
      case Phase::kPending:
        update(uid, [](Workload& row) {
          row.not_before = Instant{};
          row.patient = false;
        });
        break;
      case Phase::kQuotaReserved:
        if (over && waits_for_victims(*w)) {
          extend_victims_deadline(uid);
        } else if (over) {
          const int doublings = std::min<int>(w->short_streak, 30);
          const Duration wait =
              std::min(options_.backoff_most, options_.backoff * (std::int64_t{1} << std::min(doublings, 20)));
          update(uid, [](Workload& row) { row.short_streak += row.short_streak < UINT16_MAX; });
          release(uid, "InsufficientCapacity", wait);
        } else {
          repeat(uid);
        }
        break;
      case Phase::kAdmitted:
        if (w->min_runtime_until != Instant{} && w->min_runtime_until <= now_) {
          update(uid, [](Workload& row) { row.min_runtime_until = Instant{}; });
          dirty_.insert(indexes_.decisions.tree_of(w->cluster_queue));
        }
        if (const auto limit = run_limit_of(*w); limit && *limit <= now_) {
          deactivate(uid, "MaximumExecutionTimeExceeded",
                     fmt::format("it ran for {} s, its maximum execution time", seconds(w->max_execution)));
          break;
        }
        if (const auto limit = pods_limit_of(*w); limit && *limit <= now_) {
          pods_not_ready(uid);
          break;
        }
        if (!over) break;
        evict(uid, "PodsGone", "its pods were deleted without an eviction order", now_);
        release(uid, "PodsGone", options_.backoff);
        break;
      case Phase::kEvicting:
        repeat(uid);
        break;
      case Phase::kRejected:
        break;  // it has no timer
      case Phase::kFinished:
      case Phase::kCancelled:
        forget(uid);
        break;
    }
  }
  while (indexes_.ended.size() > options_.most_ended) {
    const WorkloadUid oldest = indexes_.ended.begin()->second;  // forget() removes its entry
    forget(oldest);
  }
  if (submissions_end_ > now_) return;
  std::vector<std::pair<Namespace, std::string>> old;
  submissions_end_ = Instant::max();
  for (const auto& [key, s] : tables_.submissions) {
    const Instant end = s.at + options_.retention;
    end <= now_ ? old.push_back(key) : (void)(submissions_end_ = std::min(submissions_end_, end));
  }
  for (const auto& key : old) tables_.submissions.erase(key);
}

}  // namespace qm::admission
