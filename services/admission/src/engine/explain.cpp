// Where a queue name leads, which priority holds, and why a workload is where it is: all computed from the state.
#include "cause.hpp"
#include "qm/admission/engine.hpp"
#include "update.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

Cause cause_of(const Shortfall& s, const ClusterQueue& queue) {
  Cause c;
  c.resource = s.resource;
  c.requested = s.requested;
  c.available = s.available;
  const auto wanted = show_amount(s.resource, s.requested);
  const auto there = show_amount(s.resource, s.available);
  switch (s.kind) {
    case Shortfall::Kind::kNotCovered:
      c.code = "ResourceNotCovered";
      c.message = fmt::format("pod set {} asks for {} of {}, which ClusterQueue {} has no quota for", s.pod_set, wanted,
                              s.resource, queue.name);
      c.remedy = fmt::format("add {} to a resource group of the queue, or leave it out of the pods", s.resource);
      break;
    case Shortfall::Kind::kFlavorMissing:
      c.code = "FlavorMissing";
      c.message = fmt::format("flavor {} of ClusterQueue {} does not exist", s.flavor, queue.name);
      c.remedy = fmt::format("apply a ResourceFlavor named {}", s.flavor);
      break;
    case Shortfall::Kind::kTaint:
      c.code = "FlavorTainted";
      c.message =
          fmt::format("flavor {} has the taint {}, which pod set {} does not tolerate", s.flavor, s.detail, s.pod_set);
      c.remedy = fmt::format("add a toleration for {} to the pods", s.detail);
      break;
    case Shortfall::Kind::kSelector:
      c.code = "FlavorMismatch";
      c.message = fmt::format("pod set {} selects another {} than flavor {} has", s.pod_set, s.detail, s.flavor);
      c.remedy = fmt::format("change the node selector {}, or add a flavor for it to the queue", s.detail);
      break;
    case Shortfall::Kind::kNeverFits:
      c.code = "ExceedsMaxQuota";
      c.message = fmt::format("{} of {} in flavor {} can never fit: the queue and what it may borrow come to {}",
                              wanted, s.resource, s.flavor, there);
      c.remedy = fmt::format("raise quota or borrowing limit by {}, or ask for less",
                             show_amount(s.resource, s.requested - s.available));
      break;
    case Shortfall::Kind::kBorrowingLimit:
      c.code = "BorrowingLimitReached";
      c.message = fmt::format(
          "{} of {} wanted in flavor {}, {} left for ClusterQueue {}: cohort {} has more, the "
          "borrowingLimit ends it",
          wanted, s.resource, s.flavor, there, queue.name, queue.cohort);
      c.remedy = fmt::format("wait until running work of the queue gives back {}, or raise its borrowingLimit",
                             show_amount(s.resource, s.requested - s.available));
      break;
    case Shortfall::Kind::kQuota:
      c.code = "QuotaExceeded";
      c.message = fmt::format("{} of {} wanted in flavor {}, {} left for ClusterQueue {}{}", wanted, s.resource,
                              s.flavor, there, queue.name,
                              queue.cohort.empty() ? "" : fmt::format(" including what cohort {} lends", queue.cohort));
      c.remedy = fmt::format("wait until running work gives back {}, or raise the quota",
                             show_amount(s.resource, s.requested - s.available));
      break;
    case Shortfall::Kind::kCapability:
      c.code = "QueueCapability";
      c.message = fmt::format("{} of {} wanted, {} left of what queue {} or one above it may have", wanted, s.resource,
                              there, queue.name);
      c.remedy = fmt::format("wait until running work of the queue gives back {}, or raise its capability",
                             show_amount(s.resource, s.requested - s.available));
      break;
    case Shortfall::Kind::kShare:
      c.code = "QueueShare";
      c.message = fmt::format("{} of {} wanted, {} left of what queue {} deserves of pool {} beside the others", wanted,
                              s.resource, there, queue.name, s.detail);
      c.remedy = "wait until others want less, or raise the weight of the queue";
      break;
    case Shortfall::Kind::kPool:
      c.code = "PoolFull";
      c.message = fmt::format("{} of {} wanted, {} idle in pool {}", wanted, s.resource, there, s.detail);
      c.remedy = fmt::format("wait until running work gives back {}, or raise the quota of Cohort {}",
                             show_amount(s.resource, s.requested - s.available), s.detail);
      break;
  }
  return c;
}

/// " with 5 of 8 pods", where it was admitted so.
std::string fewer_pods(const Workload& w) {
  if (w.counts.empty()) return {};
  return fmt::format(" with {} of {} pods", w.running_pods(), w.spec.total_pods());
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
  const auto known = [&](const QueueName& name) {
    const auto* queue = tables_.cluster_queues.find(name);
    return queue != nullptr && !queue->closing;
  };
  const auto lead_to = [&](const QueueName& name) {
    if (const auto& queue = *tables_.cluster_queues.find(name); takes(queue, spec.ns)) {
      found.queue = name;
    } else {
      found.obstacle = cause_of(
          "NamespaceNotSelected",
          queue.namespaces ? fmt::format("ClusterQueue {} does not select namespace {}", name, spec.ns)
                           : fmt::format("ClusterQueue {} has no namespaceSelector, so it takes no namespace", name),
          "change spec.namespaceSelector of the queue, {} for all, or the labels of the namespace");
    }
    return found;
  };
  if (local == nullptr) {
    const QueueName direct(*spec.queue);
    if (known(direct)) {
      found.direct = !tables_.cluster_queues.find(direct)->volcano;  // Volcano knows no others
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
                              fmt::format("LocalQueue {}/{} leads to ClusterQueue {}, which does not exist", local->ns,
                                          local->name, local->cluster_queue),
                              "apply that ClusterQueue");
    return found;
  }
  return lead_to(local->cluster_queue);
}

std::optional<Cause> Engine::queue_obstacle(const ClusterQueue& queue) const {
  if (queue.closing) {
    return cause_of("QueueUnknown", fmt::format("ClusterQueue {} was deleted", queue.name), "apply it again");
  }
  if (queue.stop != StopPolicy::kNone) {
    return cause_of("QueueStopped", fmt::format("ClusterQueue {} is stopped", queue.name),
                    "set its stopPolicy to None");
  }
  if (auto obstacle = check_obstacle(queue)) return obstacle;
  if (const auto why = indexes_.decisions.poolless(queue.name); !why.empty()) {
    return cause_of("NoPool", fmt::format("queue {} admits nothing: {}", queue.name, why),
                    "give one Cohort the quota of the pool and the annotation quartermaster.dev/queue-rules");
  }
  if (queue.volcano && queue.volcano->rules.state != volcano::QueueState::kOpen) {
    return cause_of("QueueStopped", fmt::format("Queue {} is not open", queue.name), "open it: its status says Closed");
  }
  if (queue.volcano && std::ranges::any_of(tables_.cluster_queues, [&](const auto& row) {
        return row.second.volcano && row.second.volcano->rules.parent == queue.name.value();
      })) {
    return cause_of("QueueHasChildren", fmt::format("Queue {} has queues below it", queue.name),
                    "name one of these in the job");
  }
  if (indexes_.decisions.in_circle(queue.name)) {
    return cause_of("CohortCycle", fmt::format("the cohorts above ClusterQueue {} form a circle", queue.name),
                    "break the circle of parentName");
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
  read_anew();
  keep_usage_rows();
  dirty_.clear();
  on(Reconsider{});
  std::vector<WorkloadUid> all;
  for (const auto& [uid, w] : tables_.workloads) all.push_back(uid);
  resolve(all);
}

/// The labels of a namespace say where its own workloads go, and nothing of others.
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
      // A priority written on the spec itself stays; one from a class follows the class.
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
        row.reason = where.obstacle ? where.obstacle->code : "Queued";
      });
      say(Event::What::kQueued, uid);
      continue;
    }
    check_anew(uid);
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
  if (const auto standing = indexes_.decisions.standing(queue.name)) {
    v.nominal = standing->deserved;
    v.used = standing->used;
    v.dominant_share = standing->dominant_share;
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
        v.borrowed[resource] += std::max<std::int64_t>(0, used - quota.nominal);
      }
    }
  }
  return v;
}

std::optional<Cause> Engine::room_being_made(const Workload& w) const {
  std::string names;
  for (const auto& uid : indexes_.decisions.awaited(w)) {
    const auto* leaving = tables_.workloads.find(uid);
    if (leaving == nullptr || leaving->phase != Phase::kEvicting) continue;
    names += fmt::format("{}{}/{}", names.empty() ? "" : ", ", leaving->spec.ns, leaving->spec.name);
  }
  if (names.empty()) return std::nullopt;
  return cause_of("WaitingForPreemptedWorkloads",
                  fmt::format("room is being made: the pods of {} have to go first", names));
}

Explanation Engine::explain(const Workload& w, Instant now) const {
  Explanation e;
  const Instant end = w.ended()                                                    ? w.finished
                      : w.phase == Phase::kAdmitted || w.phase == Phase::kEvicting ? w.admitted
                                                                                   : now;
  e.waiting = end > w.spec.submitted ? end - w.spec.submitted : Duration{0};
  const std::string who = fmt::format("{}/{}", w.spec.ns, w.spec.name);
  auto& causes = e.causes;
  switch (w.phase) {
    case Phase::kPending: {
      const Lead where = lead(w.spec);
      if (!w.inactive.empty()) {
        causes.push_back(cause_of("Deactivated", fmt::format("it is not active: {}", w.inactive),
                                  fmt::format("activate it: qmctl resume {}", who)));
      }
      if (w.priority_unknown) {
        causes.push_back(cause_of("PriorityClassUnknown",
                                  fmt::format("priority class {} does not exist", w.spec.priority_class),
                                  "apply a WorkloadPriorityClass of that name"));
      }
      if (where.obstacle) causes.push_back(*where.obstacle);
      const auto* queue = tables_.cluster_queues.find(w.cluster_queue);
      if (w.spec.pod_sets.empty()) causes.push_back(no_pods());
      if (!w.refused().empty()) {
        causes.push_back(cause_of("Misconfigured", w.refused(), "change what its pods ask for, or the LimitRange"));
      }
      explain_budget(w, now, causes);
      if (queue != nullptr && w.inactive.empty() && w.refused().empty() && !w.spec.pod_sets.empty()) {
        if (auto obstacle = queue_obstacle(*queue)) causes.push_back(*obstacle);
        const auto shortfalls = indexes_.decisions.shortfalls(w);
        if (!shortfalls.empty()) {
          if (auto leaving = room_being_made(w)) causes.push_back(*leaving);
        }
        for (const auto& shortfall : shortfalls) {
          auto& cause = causes.emplace_back(cause_of(shortfall, *queue));
          // Nobody has seen a pod of it: that is what its group says.
          if (w.spec.pods_to_come && !cause.resource.empty()) {
            cause.message = fmt::format("minResources.{}: {}", cause.resource, cause.message);
          }
        }
        if (causes.size() == shortfalls.size() && !w.claim) e.ways = ways_in(w, *queue);
        if (auto ahead = window_ahead(*queue, shortfalls, now)) {
          const bool only_then = shortfalls.front().kind == Shortfall::Kind::kNeverFits;
          causes.insert(only_then ? causes.end() - std::ssize(shortfalls) : causes.end(), *ahead);
        }
        if (w.not_before != Instant{}) {
          const bool no_room = w.reason == "NoRoom";
          causes.push_back(cause_of(
              no_room ? "NoRoom" : "BackOff",
              no_room ? fmt::format("there was no room for it: {}; tried again when its pods fit, at "
                                    "the latest {}",
                                    w.short_reason.empty() ? "no node fits" : w.short_reason, to_rfc3339(w.not_before))
                      : fmt::format("tried again at {} after {}", to_rfc3339(w.not_before), w.reason),
              no_room ? "add nodes that fit its pods, or wait for running work to end" : ""));
        }
        if (auto turn = turn_of(w)) causes.push_back(*turn);
        explain_passing(w, now, causes);
        const int place = position(w);
        if (place > 1 && !indexes_.decisions.by_usage(w.cluster_queue)) {
          // Whose it is may not be for everybody who asks.
          const auto& first = *tables_.workloads.find(indexes_.waiting.at(w.cluster_queue).all.first().uid);
          causes.push_back(
              cause_of("Behind",
                       fmt::format("{} {} ahead of it in ClusterQueue {}, the first with priority {}", place - 1,
                                   place == 2 ? "workload is" : "workloads are", w.cluster_queue, first.spec.priority),
                       queue->strategy == Strategy::kStrictFifo ? "the queue keeps strict order: they go first"
                                                                : "it may pass them where it fits and they do not"));
        }
      }
      if (w.queue_is_direct) {
        causes.push_back(cause_of(
            "QueueIsCluster",
            fmt::format("queue {} is a ClusterQueue, not a LocalQueue of namespace {}", w.spec.queue, w.spec.ns),
            "make a LocalQueue that points to it"));
      }
      e.summary = causes.empty() ? fmt::format("{} is next and about to be decided", who)
                                 : fmt::format("{} waits: {}", who, causes.front().message);
      break;
    }
    case Phase::kQuotaReserved:
      if (w.gated) {
        explain_gate(w, causes);
      } else if (w.answer == Answer::kShort) {
        explain_proposal(w, causes);
        const bool promised = w.promised_until > now;
        causes.push_back(cause_of(
            "NoRoom",
            fmt::format("quota is reserved but there is no room: {}{}",
                        w.short_reason.empty() ? "no node fits" : w.short_reason,
                        promised ? fmt::format("; capacity is announced for {}", to_rfc3339(w.promised_until)) : ""),
            promised ? "" : "add nodes that fit its pods, or wait for running work to end"));
      } else {
        causes.push_back(cause_of("WaitingForPlacement", "quota is reserved; placement has not answered yet",
                                  "if this lasts, look whether the placement service runs"));
      }
      e.summary = fmt::format("{} waits: {}", who, causes.front().message);
      break;
    case Phase::kAdmitted:
      if (const auto limit = run_limit_of(w)) {
        causes.push_back(cause_of("MaximumExecutionTime",
                                  fmt::format("it may run until {}: {} s in all, {} s of them in earlier attempts",
                                              to_rfc3339(*limit), seconds(w.max_execution), seconds(w.ran))));
      }
      if (w.answer == Answer::kBound) {
        e.summary = fmt::format("{} runs{} since {}", who, fewer_pods(w), to_rfc3339(w.admitted));
      } else {
        causes.push_back(cause_of(
            "WaitingForPods", fmt::format("admitted with reservation {}; its pods are not all bound", w.reservation),
            "look at the events of the job if this lasts"));
        e.summary = fmt::format("{} is admitted and starts{}", who, fewer_pods(w));
      }
      break;
    case Phase::kEvicting:
      causes.push_back(cause_of(
          w.eviction->reason,
          fmt::format("evicted: {}; its pods are gone by {}", w.eviction->message, to_rfc3339(w.eviction->deadline)),
          w.cancelled               ? ""
          : !w.inactive.empty()     ? fmt::format("it is not tried again until it is activated: qmctl resume {}", who)
          : w.requeued == Instant{} ? "it is queued again by itself with its old age"
                                    : "it is queued again by itself, behind those who wait now"));
      e.summary = fmt::format("{} is being evicted: {}", who, w.eviction->message);
      break;
    case Phase::kFinished:
      e.summary = fmt::format("{} {} at {}", who, w.succeeded ? "succeeded" : "failed", to_rfc3339(w.finished));
      break;
    case Phase::kCancelled:
      e.summary = fmt::format("{} was cancelled at {}: {}", who, to_rfc3339(w.finished), w.reason);
      break;
    case Phase::kRejected:
      causes.push_back(cause_of("Rejected", w.rejected(), "correct the object; each update of it is parsed again"));
      e.summary = fmt::format("{} is rejected: {}", who, w.rejected());
      break;
  }
  if (w.holds_quota()) explain_update(w, causes);
  return e;
}

}  // namespace qm::admission
