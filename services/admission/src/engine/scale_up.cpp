// Jobs whose number of pods changes while they run. Fewer pods release their quota at once. An elastic Job may have
// more, as with Kueue's workload slices. The added pods need quota of the flavors that the others have, for all of
// them together; the others run on meanwhile.
//
// Order      a scale-up goes before pending workloads of lower priority only. It preempts no workload, and in a strict
//            queue it gets no quota while a workload that goes before it is pending.
// Placement  gets the new count. min_count has the pods that have to run together, without the added ones.
#include "cause.hpp"
#include "update.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

Usage for_pods(const Usage& usage, std::int32_t from, std::int32_t to) {
  Usage out;
  for (const auto& [at, amount] : usage) out[at] = amount / from * to;
  return out;
}

}  // namespace

std::string scale_up_of(const Workload& w) {
  const auto more = w.scale_up_to() - w.counted_pods();
  return fmt::format("{} more {} {} pending for quota ({} of {} pods are admitted)", more, more == 1 ? "pod" : "pods",
                     more == 1 ? "is" : "are", w.counted_pods(), w.scale_up_to());
}

/// Follows the pod count of a running Job: admitted pods that it no longer runs, pods with no work left, and requested
/// pods beyond the admitted ones.
void Engine::scale(const JobUpdated& c) {
  const WorkloadUid uid = c.spec.uid;
  const Workload& w = *tables_.workloads.find(uid);
  if (*w.spec.kind != "Job" || c.at_once < 0) return pods_ended(uid, c.ended);
  if (c.at_once == 0) return evict(uid, "NoPods", "its Job requests no pods", now_ + options_.eviction_grace);
  const auto needed = c.at_once - c.ended;
  if (needed <= 0) return;  // it ends
  const bool more = needed > w.counted_pods();
  const auto* queue = tables_.cluster_queues.find(w.cluster_queue);
  const bool counts_pods = w.spec.pod_sets.size() == 1 && queue != nullptr && !queue->volcano;
  const bool grows = w.external_scheduler ? counts_pods : may_scale_up(c, w.next() == nullptr ? w.spec : *w.next());
  request_scale_up(uid, more && grows ? needed : 0);
  if (!more) pods_ended(uid, w.running_pods() - needed);
}

bool Engine::may_scale_up(const JobUpdated& c, const Spec& next) const {
  const Workload& w = *tables_.workloads.find(c.spec.uid);
  const auto* queue = tables_.cluster_queues.find(w.cluster_queue);
  const bool counts_pods = queue != nullptr && !queue->volcano;  // Volcano counts a gang whole
  return c.elastic && w.phase == Phase::kAdmitted && !w.external_scheduler && w.rejected().empty() &&
         w.checks.empty() && w.counts.empty() && counts_pods && differ_in_count_alone(w.spec, next);
}

/// `pods` = 0: no more than it has quota for.
void Engine::request_scale_up(const WorkloadUid& uid, std::int32_t pods) {
  const Workload& w = *tables_.workloads.find(uid);
  if (w.scale_up_to() == pods) return;
  except(uid, [&](Exceptions& e) { e.scale_up_to = pods; });
  if (pods > 0) {
    scale_up_requested_.insert(uid);
    dirty_.insert(indexes_.decisions.tree_of(w.cluster_queue));
  }
  publish(Event::What::kUpdated, uid);
}

/// Whether a pending workload of the queue goes before it.
bool Engine::follows_pending(const QueueOrder& order, const QueueName& queue) const {
  const auto line = indexes_.waiting.find(queue);
  return line != indexes_.waiting.end() && line->second.ready > 0 &&
         line->second.all.first().minus_priority <= order.minus_priority;
}

std::vector<Cause> Engine::scale_up_obstacles(const Workload& w) const {
  const Lead where = lead(w.spec);
  const auto& queue = *tables_.cluster_queues.find(w.cluster_queue);
  if (where.obstacle) return {*where.obstacle};
  if (auto obstacle = inactive_reason(queue)) return {*obstacle};
  std::vector<Cause> out;
  const auto from = w.counted_pods();
  for (const auto& shortfall :
       indexes_.decisions.scale_up_shortfalls(w, for_pods(w.usage, from, w.scale_up_to() - from))) {
    out.push_back(shortfall_cause(shortfall, queue, true));
  }
  if (const auto name = lacking(scale_up_costs(w, true)); !name.empty()) {
    out.push_back(cause_of("BudgetExhausted", fmt::format("Budget {} has too little free for them", name),
                           "raise spec.amount of the Budget, or wait for its next period"));
  }
  if (!out.empty()) return out;
  const bool strict = queue.strategy == Strategy::kStrictFifo || queue.backfill;
  if (strict && follows_pending(QueueOrder::of(w), queue.name)) {
    out.push_back(cause_of(
        "Behind",
        fmt::format("ClusterQueue {} is StrictFIFO, and its first pending workload goes before them", queue.name),
        "raise the priority of the Job"));
  }
  return out;
}

/// Pods that another scheduler binds run regardless of decisions here: their usage is counted as far as quota is free.
bool Engine::count_running(const WorkloadUid& uid) {
  const Workload& w = *tables_.workloads.find(uid);
  const auto from = w.counted_pods();
  std::int32_t fit = 0, end = w.scale_up_to() - from + 1;
  while (end - fit > 1) {
    const auto middle = fit + (end - fit) / 2;
    const bool fits = indexes_.decisions.scale_up_shortfalls(w, for_pods(w.usage, from, middle)).empty();
    (fits ? fit : end) = middle;
  }
  if (fit == 0) return false;
  update(uid, [&](Workload& row) {
    row.usage = for_pods(row.usage, from, from + fit);
    row.ended_pods -= fit;
    if (row.counted_pods() == row.scale_up_to()) row.except([](Exceptions& e) { e.scale_up_to = 0; });
  });
  publish(Event::What::kUpdated, uid);
  return true;
}

bool Engine::try_scale_up(const WorkloadUid& uid) {
  const Workload& w = *tables_.workloads.find(uid);
  if (w.external_scheduler) return count_running(uid);
  if (!scale_up_obstacles(w).empty()) return false;
  const auto from = w.counted_pods(), to = w.scale_up_to();
  hold_for_scale_up(uid);
  const Spec spec = w.next() == nullptr ? w.spec : *w.next();
  const auto print = w.next() == nullptr ? w.spec_print : w.exceptions->next_print;
  const auto before = w.exceptions->scaled_from > 0 ? w.exceptions->scaled_from : w.running_pods();
  update(uid, [&](Workload& row) {
    row.usage = for_pods(row.usage, from, to);
    row.ended_pods = row.running_pods() - to;
  });
  reshape(uid, [&](Workload& row) {
    row.spec = spec;
    row.spec_print = print;
    row.ended_pods = row.running_pods() - to;
    row.except([&](Exceptions& e) {
      e.scale_up_to = 0;
      e.scaled_from = std::min(before, from);
      e.forget_next();
    });
  });
  publish(Event::What::kUpdated, uid);
  return true;
}

/// `ahead`: only workloads that precede each pending workload of the tree, or whose pods run already.
void Engine::scale_up_tree(int tree, bool ahead) {
  std::vector<WorkloadUid> due;
  for (const auto& order : indexes_.scaling_up) {
    const Workload& w = *tables_.workloads.find(order.uid);
    if (indexes_.decisions.tree_of(w.cluster_queue) != tree) continue;
    const bool follows = std::ranges::any_of(indexes_.waiting, [&](const auto& line) {
      return indexes_.decisions.tree_of(line.first) == tree && follows_pending(order, line.first);
    });
    if (!ahead || !follows || w.external_scheduler) due.push_back(order.uid);
  }
  for (const auto& uid : due) (void)try_scale_up(uid);
}

/// An event on the object, once for each number of pods.
void Engine::report_scale_up() {
  for (const auto& uid : scale_up_requested_) {
    const Workload* w = tables_.workloads.find(uid);
    if (w == nullptr || w->phase != Phase::kAdmitted || !w->scale_up_pending()) continue;
    const auto obstacles = scale_up_obstacles(*w);
    if (obstacles.empty()) continue;
    add_intent("event.create", uid,
               fmt::format("{}, and the admitted pods keep running: {}", scale_up_of(*w), obstacles.front().message),
               "ScaleUpPending");
  }
}

}  // namespace qm::admission
