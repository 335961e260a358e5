// Explains the state of a workload, phase by phase.
#include "lifecycle/starts.hpp"
#include "qm/admission/queries/explanation.hpp"
#include "qm/admission/queries/workloads.hpp"
#include "qm/model/other_scheduler.hpp"
#include "queries/causes.hpp"
#include "state/cause.hpp"
#include "state/deadlines.hpp"
#include "state/queue_lookup.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

/// " with 5 of 8 pods", if it was admitted with fewer.
std::string fewer_pods(const Workload& w) {
  if (w.counts.empty()) return {};
  return fmt::format(" with {} of {} pods", w.running_pods(), w.spec.total_pods());
}

/// " on r1 (2), r2 (1)": the domains of its topology assignment, each with its number of pods.
std::string nodes_text(const Workload& w) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> domains;
  for (const auto& [set, assignment] : w.nodes()) {
    for (const auto& domain : assignment.domains)
      domains.push_back(fmt::format("{} ({})", fmt::join(domain.values, "/"), domain.count));
  }
  if (domains.empty()) return {};
  const auto left = domains.size() > kShown ? domains.size() - kShown : 0;
  domains.resize(domains.size() - left);
  return fmt::format(" on {}{}", fmt::join(domains, ", "), left > 0 ? fmt::format(" and {} more", left) : "");
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

std::string name_in_texts(const Workload& w) { return fmt::format("{}/{}", w.spec.ns, w.spec.name); }

/// What blocks it in its queue: the state of the queue, missing quota, and workloads ahead of it.
void explain_queue(const EngineState& state, const Workload& w, const ClusterQueue& queue, Instant now,
                   Explanation& e) {
  auto& causes = e.causes;
  if (auto obstacle = inactive_reason(state, queue)) causes.push_back(*obstacle);
  const auto lacks = shortfalls(state, w);
  const int place = queue_position(state, w);
  if (!lacks.empty()) {
    if (auto leaving = pending_preemption(state, w)) causes.push_back(*leaving);
  }
  for (const auto& shortfall : lacks) {
    auto& cause = causes.emplace_back(shortfall_cause(shortfall, queue, place <= 1));
    // Without pods, the amounts are those that the group declares.
    if (w.spec.pods_expected && !cause.resource.empty()) {
      cause.message = fmt::format("minResources.{}: {}", cause.resource, cause.message);
    }
  }
  e.may_have_remedies = causes.size() == lacks.size() && w.ready() && !w.claim;
  if (auto ahead = window_ahead(queue, lacks, now)) {
    const bool only_then = lacks.front().kind == QuotaShortfall::Kind::kNeverFits;
    causes.insert(only_then ? causes.end() - std::ssize(lacks) : causes.end(), *ahead);
  }
  if (w.not_before != Instant{}) {
    const bool insufficient_resources = w.reason == "InsufficientCapacity";
    causes.push_back(
        cause_of(insufficient_resources ? "InsufficientCapacity" : "BackOff",
                 insufficient_resources
                     ? fmt::format("no nodes had the capacity: {}; it is tried again when its pods fit, at "
                                   "the latest {}",
                                   w.short_reason.empty() ? "no node fits" : w.short_reason, to_rfc3339(w.not_before))
                     : fmt::format("tried again at {} after {}", to_rfc3339(w.not_before), w.reason),
                 insufficient_resources ? "add nodes that fit its pods" : ""));
  }
  if (auto obstacle = usage_obstacle(state, w)) causes.push_back(*obstacle);
  explain_backfill(state, w, now, causes);
  if (place > 1 && !state.indexes.decisions.by_usage(w.cluster_queue)) {
    // The caller may not be allowed to see which workload it is.
    const auto& first = *state.tables.workloads.find(state.indexes.waiting.at(w.cluster_queue).all.first().uid);
    causes.push_back(
        cause_of("Behind",
                 fmt::format("{} {} ahead of it in ClusterQueue {}, the first with priority {}", place - 1,
                             place == 2 ? "workload is" : "workloads are", w.cluster_queue, first.spec.priority),
                 queue.strategy == Strategy::kStrictFifo ? "the ClusterQueue is StrictFIFO: they are admitted first"
                                                         : "it is admitted before them where it fits and they do not"));
  }
}

void explain_pending(const EngineState& state, const Workload& w, Instant now, Explanation& e) {
  auto& causes = e.causes;
  const std::string workload_name = name_in_texts(w);
  const auto where = resolve_queue(state, w.spec);
  if (!w.inactive.empty()) {
    causes.push_back(cause_of("Deactivated", fmt::format("it is not active: {}", w.inactive),
                              fmt::format("activate it: qmctl resume {}", workload_name)));
  }
  if (w.priority_unknown) causes.push_back(unknown_priority(w.spec.priority_class));
  if (where.obstacle) causes.push_back(*where.obstacle);
  const auto* queue = state.tables.cluster_queues.find(w.cluster_queue);
  if (w.spec.pod_sets.empty()) causes.push_back(no_pods());
  if (!w.refused().empty()) {
    causes.push_back(cause_of("Misconfigured", w.refused(), "change the requests of its pods, or the LimitRange"));
  }
  explain_budget(state.tables, w, now, causes);
  if (queue != nullptr && w.inactive.empty() && w.refused().empty() && !w.spec.pod_sets.empty()) {
    explain_queue(state, w, *queue, now, e);
  }
  if (w.queue_is_direct) {
    causes.push_back(
        cause_of("QueueIsCluster",
                 fmt::format("queue {} is a ClusterQueue, not a LocalQueue of namespace {}", w.spec.queue, w.spec.ns),
                 "create a LocalQueue that names it in spec.clusterQueue"));
  }
  e.summary = causes.empty() ? fmt::format("{} is first in its queue and is decided next", workload_name)
                             : fmt::format("{} is pending: {}", workload_name, causes.front().message);
}

void explain_reserved(const EngineState& state, const Workload& w, Instant now, Explanation& e) {
  auto& causes = e.causes;
  if (w.gated) {
    explain_gate(state, w, causes);
  } else if (w.answer == Answer::kShort) {
    explain_proposal(state.tables, w, causes);
    const bool promised = w.promised_until > now;
    causes.push_back(cause_of(
        "InsufficientCapacity",
        fmt::format("quota is reserved, and no nodes have the capacity: {}{}",
                    w.short_reason.empty() ? "no node fits" : w.short_reason,
                    promised ? fmt::format("; capacity is announced for {}", to_rfc3339(w.promised_until)) : ""),
        promised ? "" : "add nodes that fit its pods"));
  } else if (w.answer == Answer::kReserved || w.answer == Answer::kBound) {
    causes.push_back(cause_of(
        "WaitingToStart",
        fmt::format("nodes are reserved; gangs start when fewer than {} pods of gangs that are not larger are unbound",
                    Starts::window(state)),
        "if this lasts, check why pods of admitted gangs are not created or bound; start-window=0 starts all at once"));
  } else {
    causes.push_back(cause_of("WaitingForPlacement", "quota is reserved; placement has not answered yet",
                              "if this lasts, check that the placement service runs"));
  }
  e.summary = fmt::format("{} is pending: {}", name_in_texts(w), causes.front().message);
}

void explain_admitted(const Workload& w, Explanation& e) {
  auto& causes = e.causes;
  const std::string workload_name = name_in_texts(w);
  if (const auto limit = run_limit_of(w)) {
    causes.push_back(cause_of("MaximumExecutionTime",
                              fmt::format("it may run until {}: {} s in all, {} s of them in earlier attempts",
                                          to_rfc3339(*limit), seconds(w.max_execution), seconds(w.ran))));
  }
  if (w.answer == Answer::kBound) {
    e.summary = fmt::format("{} runs{} since {}", workload_name, fewer_pods(w), to_rfc3339(w.admitted));
  } else if (w.external_scheduler) {
    e.summary = fmt::format("{} is admitted{}, and another scheduler binds its pods{}", workload_name, fewer_pods(w),
                            nodes_text(w));
  } else {
    causes.push_back(cause_of("WaitingForPods",
                              fmt::format("admitted with reservation {}; its pods are not all bound", w.reservation),
                              "check the events of the job if this lasts"));
    e.summary = fmt::format("{} is admitted and starts{}", workload_name, fewer_pods(w));
  }
}

}  // namespace

Explanation explain(const EngineState& state, const Workload& w, Instant now) {
  Explanation e;
  const Instant end = w.ended()                                                    ? w.finished
                      : w.phase == Phase::kAdmitted || w.phase == Phase::kEvicting ? w.admitted
                                                                                   : now;
  e.waiting = end > w.spec.submitted ? end - w.spec.submitted : Duration{0};
  const std::string workload_name = name_in_texts(w);
  auto& causes = e.causes;
  switch (w.phase) {
    case Phase::kPending:
      explain_pending(state, w, now, e);
      break;
    case Phase::kQuotaReserved:
      explain_reserved(state, w, now, e);
      break;
    case Phase::kAdmitted:
      explain_admitted(w, e);
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
  if (w.holds_quota()) explain_update(state, w, causes);
  // A Workload object, and a group without pods, have no known pod template.
  const bool names_one = w.external_scheduler && !w.spec.pods_expected && *w.spec.kind != "Workload";
  if (state.options.places && names_one && (w.phase == Phase::kPending || w.phase == Phase::kAdmitted)) {
    auto other = other_scheduler(is_pods(*w.spec.kind));
    causes.push_back(cause_of("OtherScheduler", std::move(other.message), std::move(other.remedy)));
  }
  return e;
}

}  // namespace qm::admission
