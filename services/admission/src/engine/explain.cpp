// Resolves queue names and priorities, and explains the state of a workload: all computed from the tables.
#include "cause.hpp"
#include "qm/admission/engine.hpp"
#include "qm/model/other_scheduler.hpp"
#include "update.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

/// "3 left for ClusterQueue a", or the amount by which it exceeds its quota.
std::string left_for(const QuotaShortfall& s, const ClusterQueue& queue) {
  const auto left = show_amount(s.resource, std::max<std::int64_t>(0, s.available));
  if (s.available >= 0) return fmt::format("{} left for ClusterQueue {}", left, queue.name);
  return fmt::format("{} left for ClusterQueue {}, where usage exceeds quota by {}", left, queue.name,
                     show_amount(s.resource, -s.available));
}

}  // namespace

Cause shortfall_cause(const QuotaShortfall& s, const ClusterQueue& queue, bool first) {
  Cause c;
  c.resource = s.resource;
  c.requested = s.requested;
  c.available = s.available;
  const auto wanted = show_amount(s.resource, s.requested);
  const auto there = show_amount(s.resource, s.available);
  switch (s.kind) {
    case QuotaShortfall::Kind::kNotCovered:
      c.code = "ResourceNotCovered";
      c.message = fmt::format("pod set {} requests {} of {}, for which ClusterQueue {} has no quota", s.pod_set, wanted,
                              s.resource, queue.name);
      break;
    case QuotaShortfall::Kind::kFlavorMissing:
      c.code = "FlavorMissing";
      c.message = fmt::format("flavor {} of ClusterQueue {} does not exist", s.flavor, queue.name);
      break;
    case QuotaShortfall::Kind::kTaint:
      c.code = "FlavorTainted";
      c.message =
          fmt::format("flavor {} has the taint {}, which pod set {} does not tolerate", s.flavor, s.detail, s.pod_set);
      break;
    case QuotaShortfall::Kind::kSelector:
      c.code = "FlavorMismatch";
      c.message = fmt::format("pod set {} selects another {} than flavor {} has", s.pod_set, s.detail, s.flavor);
      break;
    case QuotaShortfall::Kind::kNeverFits:
      c.code = "ExceedsMaxQuota";
      c.message =
          fmt::format("{} of {} in flavor {} can never fit, so waiting does not help: ClusterQueue {} has {}{}", wanted,
                      s.resource, s.flavor, queue.name, there,
                      queue.cohort.empty() ? "" : fmt::format(" with what it may borrow from Cohort {}", queue.cohort));
      break;
    case QuotaShortfall::Kind::kBorrowingLimit:
      c.code = "BorrowingLimitReached";
      c.message = fmt::format("{} of {} wanted in flavor {}, {}: Cohort {} has more, borrowingLimit forbids it", wanted,
                              s.resource, s.flavor, left_for(s, queue), queue.cohort);
      break;
    case QuotaShortfall::Kind::kQuota:
      c.code = "QuotaExceeded";
      c.message = fmt::format("{} of {} wanted in flavor {}, {}{}", wanted, s.resource, s.flavor, left_for(s, queue),
                              queue.cohort.empty() ? "" : fmt::format(" including what Cohort {} lends", queue.cohort));
      // In a cohort, more than the missing amount may have to become free.
      if (queue.cohort.empty() && first) {
        c.remedy = fmt::format("wait until workloads of the queue release {}",
                               show_amount(s.resource, s.requested - s.available));
      }
      break;
    case QuotaShortfall::Kind::kCapability:
      c.code = "QueueCapability";
      c.message = fmt::format("{} of {} wanted, {} left within the capability of Queue {} or a parent", wanted,
                              s.resource, there, queue.name);
      break;
    case QuotaShortfall::Kind::kShare:
      c.code = "QueueShare";
      c.message = fmt::format("{} of {} wanted, {} left of the deserved amount of Queue {} in pool {}", wanted,
                              s.resource, there, queue.name, s.detail);
      break;
    case QuotaShortfall::Kind::kPool:
      c.code = "PoolFull";
      c.message = fmt::format("{} of {} wanted, {} idle in pool {}", wanted, s.resource, there, s.detail);
      break;
  }
  return c;
}

namespace {

/// "x -> y -> x": the first cycle on the way up from a cohort.
std::string cycle_above(const Table<std::string, Cohort>& cohorts, const std::string& from) {
  std::vector<std::string> path{from};
  for (;;) {
    const auto* cohort = cohorts.find(path.back());
    if (cohort == nullptr || cohort->parent.empty()) return {};
    const auto begin = std::ranges::find(path, cohort->parent);
    if (begin == path.end()) {
      path.push_back(cohort->parent);
      continue;
    }
    std::string out;
    for (auto at = begin; at != path.end(); ++at) out += *at + " -> ";
    return out + cohort->parent;
  }
}

/// " with 5 of 8 pods", if it was admitted with fewer.
std::string fewer_pods(const Workload& w) {
  if (w.counts.empty()) return {};
  return fmt::format(" with {} of {} pods", w.running_pods(), w.spec.total_pods());
}

/// What an evicted workload waits for, the deadline, and what happens then.
Cause eviction_of(const Workload& w, Instant now) {
  const auto& order = *w.eviction;
  const auto pods = std::max(1, w.running_pods() - w.ended_pods);
  const std::string waiting = fmt::format("waiting for {} {} to terminate", pods, pods == 1 ? "pod" : "pods");
  // Only the garbage collector deletes the pods of a deleted Job, and it keeps orphans: there is no deadline to report.
  if (w.job_deleted) {
    return cause_of(order.reason,
                    fmt::format("{}; {}, {} quota is held as long as {}", order.message, waiting,
                                pods == 1 ? "its" : "their", pods == 1 ? "it runs" : "they run"),
                    "where the Job was deleted with propagationPolicy Orphan, delete its pods to release the quota");
  }
  const bool late = order.deadline <= now;
  const std::string until =
      late ? pods == 1 ? ", which takes longer than its grace period" : ", which take longer than their grace period"
           : fmt::format(", until {} at the latest", to_rfc3339(order.deadline));
  std::string next = w.cancelled ? "it is canceled then"
                     : !w.inactive.empty()
                         ? fmt::format("to queue it again: qmctl resume {}/{}", w.spec.ns, w.spec.name)
                     : order.requeue_at > now  ? fmt::format("it is queued again at {}", to_rfc3339(order.requeue_at))
                     : w.requeued == Instant{} ? "it is queued again then, with its original queue position"
                                               : "it is queued again then, behind the workloads that are pending now";
  if (late) next = "check the nodes and the finalizers of its pods; " + next;
  return cause_of(order.reason, fmt::format("{}; {}{}", order.message, waiting, until), std::move(next));
}

}  // namespace

bool Engine::takes(const ClusterQueue& queue, const Namespace& ns) const {
  if (!queue.namespaces || queue.namespaces->empty()) return queue.namespaces.has_value();
  const auto* known = tables_.namespaces.find(ns);
  Labels labels = known == nullptr ? Labels() : known->labels;
  labels["kubernetes.io/metadata.name"] = ns.value();
  const auto selector = LabelSelector::parse(*queue.namespaces);
  return selector && selector->matches(labels);
}

Engine::Lead Engine::lead(const Spec& spec) const {
  Lead found;
  const LocalQueue* local = nullptr;
  if (spec.queue.empty()) {
    int count = 0;
    for (auto it = tables_.local_queues.rows().lower_bound({spec.ns, ""});
         it != tables_.local_queues.end() && it->first.first == spec.ns; ++it) {
      local = &it->second;
      ++count;
    }
    if (count != 1) {
      found.obstacle = cause_of(
          "QueueMissing",
          fmt::format("the job names no queue and namespace {} has {}", spec.ns, count == 0 ? "none" : "several"),
          fmt::format("set the label {} to a LocalQueue of the namespace", words::kQueueLabel));
      return found;
    }
  } else {
    local = tables_.local_queues.find({spec.ns, spec.queue});
  }
  const auto known = [&](const QueueName& name) { return tables_.cluster_queues.contains(name); };
  const auto lead_to = [&](const QueueName& name) {
    const auto& queue = *tables_.cluster_queues.find(name);
    if (queue.closing) {
      found.obstacle = inactive_reason(queue);
    } else if (takes(queue, spec.ns)) {
      found.queue = name;
    } else {
      found.obstacle = cause_of(
          "NamespaceNotSelected",
          queue.namespaces ? fmt::format("ClusterQueue {} does not select namespace {}", name, spec.ns)
                           : fmt::format("ClusterQueue {} has no namespaceSelector, so it selects no namespace", name),
          "change spec.namespaceSelector of the queue, {} for all, or the labels of the namespace");
    }
    return found;
  };
  if (local == nullptr) {
    const QueueName direct(*spec.queue);
    if (known(direct)) {
      const auto& queue = *tables_.cluster_queues.find(direct);
      found.direct = !queue.volcano && !queue.closing;  // Volcano has no namespaced queues
      return lead_to(direct);
    }
    found.obstacle =
        cause_of("QueueUnknown", fmt::format("queue {} does not exist in namespace {}", spec.queue, spec.ns),
                 "apply a LocalQueue of that name, or correct the label");
    return found;
  }
  if (local->stop != StopPolicy::kNone) {
    found.drain = local->stop == StopPolicy::kHoldAndDrain;
    found.obstacle = cause_of("QueueStopped", fmt::format("LocalQueue {}/{} is stopped", local->ns, local->name),
                              "set its stopPolicy to None");
    return found;
  }
  if (!known(local->cluster_queue)) {
    found.obstacle = cause_of("QueueUnknown",
                              fmt::format("LocalQueue {}/{} points to ClusterQueue {}, which does not exist", local->ns,
                                          local->name, local->cluster_queue),
                              "apply that ClusterQueue");
    return found;
  }
  return lead_to(local->cluster_queue);
}

std::optional<Cause> Engine::inactive_reason(const ClusterQueue& queue) const {
  if (queue.closing) {
    const auto holders = indexes_.holders.find(queue.name);
    const auto held = holders == indexes_.holders.end() ? 0 : holders->second.size();
    return cause_of("QueueTerminating",
                    fmt::format("ClusterQueue {} is terminating: it was deleted while {} {} its quota, and admits no "
                                "more workloads",
                                queue.name, held, held == 1 ? "workload holds" : "workloads hold"),
                    "apply the ClusterQueue again, or use another queue");
  }
  if (queue.stop != StopPolicy::kNone) {
    return cause_of("QueueStopped", fmt::format("ClusterQueue {} is stopped", queue.name),
                    "set its stopPolicy to None");
  }
  if (auto obstacle = check_obstacle(queue)) return obstacle;
  if (const auto why = indexes_.decisions.pool_error(queue.name); !why.empty()) {
    return cause_of("NoPool", fmt::format("queue {} admits nothing: {}", queue.name, why),
                    "give one Cohort the quota of the pool and the annotation quartermaster.dev/queue-rules");
  }
  if (queue.volcano && queue.volcano->rules.state != volcano::QueueState::kOpen) {
    return cause_of("QueueStopped", fmt::format("Queue {} is not open", queue.name), "open it: its state is Closed");
  }
  if (queue.volcano && std::ranges::any_of(tables_.cluster_queues, [&](const auto& row) {
        return row.second.volcano && row.second.volcano->rules.parent == queue.name.value();
      })) {
    return cause_of("QueueHasChildren", fmt::format("Queue {} has child queues", queue.name),
                    "name one of these in the job");
  }
  if (indexes_.decisions.in_cohort_cycle(queue.name)) {
    return cause_of("CohortCycle",
                    fmt::format("the Cohorts above ClusterQueue {} form a cycle: {}", queue.name,
                                cycle_above(tables_.cohorts, queue.cohort)),
                    "remove spec.parentName from one of these Cohorts");
  }
  return std::nullopt;
}

std::optional<std::int32_t> Engine::priority_of(const Spec& spec) const {
  if (!spec.priority_class.empty()) {
    for (const bool workload_only : {true, false}) {
      if (const auto* c = tables_.priority_classes.find({spec.priority_class, workload_only})) return c->value;
    }
    return std::nullopt;
  }
  if (spec.priority != 0) return spec.priority;
  for (const auto& [key, c] : tables_.priority_classes) {
    if (c.global_default) return c.value;
  }
  return 0;
}

Duration Engine::minimum_run_of(const Workload& w) const {
  Duration out{0};
  if (const auto* queue = tables_.cluster_queues.find(w.cluster_queue)) out = queue->minimum_run;
  for (const bool workload_only : {true, false}) {
    const auto* c = tables_.priority_classes.find({w.spec.priority_class, workload_only});
    if (c == nullptr) continue;
    return std::max(out, c->minimum_run);
  }
  return out;
}

void Engine::resolve_all() {
  resolve_needed_ = false;
  rebuild();
  keep_usage_rows();
  dirty_.clear();
  on(Reconsider{});
  std::vector<WorkloadUid> all;
  for (const auto& [uid, w] : tables_.workloads) all.push_back(uid);
  resolve(all);
}

/// The labels of a namespace affect only workloads of that namespace.
void Engine::resolve_of(const std::set<Namespace>& namespaces) {
  std::vector<WorkloadUid> all;
  if (namespaces.empty()) return;
  for (const auto& [uid, w] : tables_.workloads) {
    if (!namespaces.contains(w.spec.ns)) continue;
    all.push_back(uid);
    dirty_.insert(indexes_.decisions.tree_of(w.cluster_queue));
  }
  resolve(all);
}

void Engine::resolve(const std::vector<WorkloadUid>& uids) {
  for (const auto& uid : uids) {
    const Workload& w = *tables_.workloads.find(uid);
    if (w.ended()) continue;
    const Lead where = lead(w.spec);
    if (w.phase == Phase::kPending) {
      // A priority in the spec itself is kept; one from a class follows the class.
      const auto priority = w.spec.priority_class.empty() ? std::optional(w.spec.priority) : priority_of(w.spec);
      if (where.queue == w.cluster_queue && priority.has_value() == !w.priority_unknown &&
          priority.value_or(0) == w.spec.priority) {
        continue;
      }
      update(uid, [&](Workload& row) {
        row.cluster_queue = where.queue;
        row.queue_is_direct = where.direct;
        row.priority_unknown = !priority;
        row.spec.priority = priority.value_or(0);
        row.reason = waiting_reason(row, where.obstacle);
      });
      publish(Event::What::kQueued, uid);
      continue;
    }
    refresh_checks(uid);
    const auto* queue = tables_.cluster_queues.find(w.cluster_queue);
    const bool local_stop = where.obstacle && where.obstacle->code == "QueueStopped";
    const bool closing = queue != nullptr && queue->closing;
    const bool stop = local_stop || closing || (queue != nullptr && queue->stop != StopPolicy::kNone);
    const bool drain = where.drain || (queue != nullptr && queue->stop == StopPolicy::kHoldAndDrain);
    if (!stop) continue;
    const char* reason = closing ? "ClusterQueueDeleted" : local_stop ? "LocalQueueStopped" : "ClusterQueueStopped";
    if (w.phase == Phase::kQuotaReserved) {
      release(uid, reason, Duration{0});
    } else if (w.phase == Phase::kAdmitted && drain) {
      evict(uid, reason, "its queue is drained", now_ + options_.eviction_grace);
    }
  }
}

const Workload* Engine::find(const Namespace& ns, const std::string& name) const {
  const auto [first, last] = indexes_.names.equal_range(Called(ns, name));
  return first == last ? nullptr : *std::prev(last);
}

int Engine::position(const Workload& workload) const {
  if (workload.phase != Phase::kPending || workload.cluster_queue.empty()) return 0;
  const auto queue = indexes_.waiting.find(workload.cluster_queue);
  const auto order = QueueOrder::of(workload);
  if (queue == indexes_.waiting.end() || !queue->second.all.contains(order)) return 0;
  return static_cast<int>(queue->second.all.before(order)) + 1;
}

Usage Engine::held_in(const QueueName& queue) const {
  const auto held = indexes_.held.find(queue);
  return held == indexes_.held.end() ? Usage{} : held->second;
}

QueueView Engine::view(const ClusterQueue& queue) const {
  QueueView v;
  v.queue = &queue;
  if (auto it = indexes_.waiting.find(queue.name); it != indexes_.waiting.end()) {
    v.pending_ready = it->second.ready;
    v.pending_backed_off = static_cast<std::int64_t>(it->second.all.size()) - v.pending_ready;
  }
  if (auto it = indexes_.holders.find(queue.name); it != indexes_.holders.end()) {
    v.holding = static_cast<std::int64_t>(it->second.size());
    for (const auto& uid : it->second) v.admitted += tables_.workloads.find(uid)->phase == Phase::kAdmitted ? 1 : 0;
  }
  if (const auto share = indexes_.decisions.pool_share(queue.name)) {
    v.nominal = share->deserved;
    v.used = share->used;
    v.dominant_share = share->dominant_share;
    for (const auto& [resource, used] : v.used) {
      v.borrowed[resource] = std::max<std::int64_t>(0, used - v.nominal[resource]);
    }
    return v;
  }
  const auto held = held_in(queue.name);
  for (const auto& group : groups(queue)) {
    for (const auto& flavor : group.flavors) {
      for (const auto& [resource, quota] : flavor.resources) {
        const auto found = held.find({flavor.flavor, resource});
        const auto used = found == held.end() ? 0 : found->second;
        v.nominal[resource] += quota.nominal;
        v.used[resource] += used;
        v.borrowed[resource] += borrowed(queue, used, quota.nominal);
      }
    }
  }
  return v;
}

std::optional<Cause> Engine::pending_preemption(const Workload& w) const {
  std::string names;
  for (const auto& uid : indexes_.decisions.awaited(w)) {
    const auto* leaving = tables_.workloads.find(uid);
    if (leaving == nullptr || leaving->phase != Phase::kEvicting) continue;
    names += fmt::format("{}{}/{}", names.empty() ? "" : ", ", leaving->spec.ns, leaving->spec.name);
  }
  if (names.empty()) return std::nullopt;
  return cause_of("WaitingForPreemptedWorkloads",
                  fmt::format("preemption is in progress: the pods of {} must terminate first", names));
}

Explanation Engine::explain(const Workload& w, Instant now) const {
  Explanation e;
  const Instant end = w.ended()                                                    ? w.finished
                      : w.phase == Phase::kAdmitted || w.phase == Phase::kEvicting ? w.admitted
                                                                                   : now;
  e.waiting = end > w.spec.submitted ? end - w.spec.submitted : Duration{0};
  const std::string workload_name = fmt::format("{}/{}", w.spec.ns, w.spec.name);
  auto& causes = e.causes;
  switch (w.phase) {
    case Phase::kPending: {
      const Lead where = lead(w.spec);
      if (!w.inactive.empty()) {
        causes.push_back(cause_of("Deactivated", fmt::format("it is not active: {}", w.inactive),
                                  fmt::format("activate it: qmctl resume {}", workload_name)));
      }
      if (w.priority_unknown) causes.push_back(unknown_priority(w.spec.priority_class));
      if (where.obstacle) causes.push_back(*where.obstacle);
      const auto* queue = tables_.cluster_queues.find(w.cluster_queue);
      if (w.spec.pod_sets.empty()) causes.push_back(no_pods());
      if (!w.refused().empty()) {
        causes.push_back(cause_of("Misconfigured", w.refused(), "change the requests of its pods, or the LimitRange"));
      }
      explain_budget(w, now, causes);
      if (queue != nullptr && w.inactive.empty() && w.refused().empty() && !w.spec.pod_sets.empty()) {
        if (auto obstacle = inactive_reason(*queue)) causes.push_back(*obstacle);
        const auto shortfalls = this->shortfalls(w);
        const int place = position(w);
        if (!shortfalls.empty()) {
          if (auto leaving = pending_preemption(w)) causes.push_back(*leaving);
        }
        for (const auto& shortfall : shortfalls) {
          auto& cause = causes.emplace_back(shortfall_cause(shortfall, *queue, place <= 1));
          // Without pods, the amounts are those that the group declares.
          if (w.spec.pods_expected && !cause.resource.empty()) {
            cause.message = fmt::format("minResources.{}: {}", cause.resource, cause.message);
          }
        }
        e.may_have_remedies = causes.size() == shortfalls.size() && w.ready() && !w.claim;
        if (auto ahead = window_ahead(*queue, shortfalls, now)) {
          const bool only_then = shortfalls.front().kind == QuotaShortfall::Kind::kNeverFits;
          causes.insert(only_then ? causes.end() - std::ssize(shortfalls) : causes.end(), *ahead);
        }
        if (w.not_before != Instant{}) {
          const bool insufficient_resources = w.reason == "InsufficientCapacity";
          causes.push_back(cause_of(
              insufficient_resources ? "InsufficientCapacity" : "BackOff",
              insufficient_resources
                  ? fmt::format("no nodes had the capacity: {}; it is tried again when its pods fit, at "
                                "the latest {}",
                                w.short_reason.empty() ? "no node fits" : w.short_reason, to_rfc3339(w.not_before))
                  : fmt::format("tried again at {} after {}", to_rfc3339(w.not_before), w.reason),
              insufficient_resources ? "add nodes that fit its pods" : ""));
        }
        if (auto obstacle = usage_obstacle(w)) causes.push_back(*obstacle);
        explain_backfill(w, now, causes);
        if (place > 1 && !indexes_.decisions.by_usage(w.cluster_queue)) {
          // The caller may not be allowed to see which workload it is.
          const auto& first = *tables_.workloads.find(indexes_.waiting.at(w.cluster_queue).all.first().uid);
          causes.push_back(cause_of(
              "Behind",
              fmt::format("{} {} ahead of it in ClusterQueue {}, the first with priority {}", place - 1,
                          place == 2 ? "workload is" : "workloads are", w.cluster_queue, first.spec.priority),
              queue->strategy == Strategy::kStrictFifo ? "the ClusterQueue is StrictFIFO: they are admitted first"
                                                       : "it is admitted before them where it fits and they do not"));
        }
      }
      if (w.queue_is_direct) {
        causes.push_back(cause_of(
            "QueueIsCluster",
            fmt::format("queue {} is a ClusterQueue, not a LocalQueue of namespace {}", w.spec.queue, w.spec.ns),
            "create a LocalQueue that names it in spec.clusterQueue"));
      }
      e.summary = causes.empty() ? fmt::format("{} is first in its queue and is decided next", workload_name)
                                 : fmt::format("{} is pending: {}", workload_name, causes.front().message);
      break;
    }
    case Phase::kQuotaReserved:
      if (w.gated) {
        explain_gate(w, causes);
      } else if (w.answer == Answer::kShort) {
        explain_proposal(w, causes);
        const bool promised = w.promised_until > now;
        causes.push_back(cause_of(
            "InsufficientCapacity",
            fmt::format("quota is reserved, and no nodes have the capacity: {}{}",
                        w.short_reason.empty() ? "no node fits" : w.short_reason,
                        promised ? fmt::format("; capacity is announced for {}", to_rfc3339(w.promised_until)) : ""),
            promised ? "" : "add nodes that fit its pods"));
      } else {
        causes.push_back(cause_of("WaitingForPlacement", "quota is reserved; placement has not answered yet",
                                  "if this lasts, check that the placement service runs"));
      }
      e.summary = fmt::format("{} is pending: {}", workload_name, causes.front().message);
      break;
    case Phase::kAdmitted:
      if (const auto limit = run_limit_of(w)) {
        causes.push_back(cause_of("MaximumExecutionTime",
                                  fmt::format("it may run until {}: {} s in all, {} s of them in earlier attempts",
                                              to_rfc3339(*limit), seconds(w.max_execution), seconds(w.ran))));
      }
      if (w.answer == Answer::kBound) {
        e.summary = fmt::format("{} runs{} since {}", workload_name, fewer_pods(w), to_rfc3339(w.admitted));
      } else if (w.external_scheduler) {
        e.summary = fmt::format("{} is admitted{}, and another scheduler binds its pods", workload_name, fewer_pods(w));
      } else {
        causes.push_back(cause_of(
            "WaitingForPods", fmt::format("admitted with reservation {}; its pods are not all bound", w.reservation),
            "check the events of the job if this lasts"));
        e.summary = fmt::format("{} is admitted and starts{}", workload_name, fewer_pods(w));
      }
      break;
    case Phase::kEvicting:
      causes.push_back(eviction_of(w, now));
      e.summary = fmt::format("{} is being evicted: {}", workload_name, causes.back().message);
      break;
    case Phase::kFinished:
      e.summary =
          fmt::format("{} {} at {}", workload_name, w.succeeded ? "succeeded" : "failed", to_rfc3339(w.finished));
      break;
    case Phase::kCancelled:
      e.summary = fmt::format("{} was canceled at {}: {}", workload_name, to_rfc3339(w.finished), w.reason);
      break;
    case Phase::kRejected:
      causes.push_back(cause_of("Rejected", w.rejected(), "correct the object; each update of it is parsed again"));
      e.summary = fmt::format("{} is rejected: {}", workload_name, w.rejected());
      break;
  }
  if (w.holds_quota()) explain_update(w, causes);
  // A Workload object, and a group without pods, have no known pod template.
  const bool names_one = w.external_scheduler && !w.spec.pods_expected && *w.spec.kind != "Workload";
  if (options_.places && names_one && (w.phase == Phase::kPending || w.phase == Phase::kAdmitted)) {
    auto other = other_scheduler(is_pods(*w.spec.kind));
    causes.push_back(cause_of("OtherScheduler", std::move(other.message), std::move(other.remedy)));
  }
  return e;
}

}  // namespace qm::admission
