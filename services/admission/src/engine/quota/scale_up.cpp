#include "quota/scale_up.hpp"

#include "qm/admission/queries/queues.hpp"
#include "state/budget_amounts.hpp"
#include "state/cause.hpp"
#include "state/queue_lookup.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

Usage for_pods(const Usage& usage, std::int32_t from, std::int32_t to) {
  Usage out;
  for (const auto& [at, amount] : usage) out[at] = amount / from * to;
  return out;
}
/// Whether a pending workload of the queue goes before it.
bool follows_pending(const EngineState& state, const QueueOrder& order, const QueueName& queue) {
  const auto line = state.indexes.waiting.find(queue);
  return line != state.indexes.waiting.end() && line->second.ready > 0 &&
         line->second.all.first().minus_priority <= order.minus_priority;
}

}  // namespace

std::string scale_up_of(const Workload& w) {
  const auto more = w.scale_up_to() - w.counted_pods();
  return fmt::format("{} more {} {} pending for quota ({} of {} pods are admitted)", more, more == 1 ? "pod" : "pods",
                     more == 1 ? "is" : "are", w.counted_pods(), w.scale_up_to());
}
bool may_scale_up(const Tables& tables, const JobUpdated& c, const Spec& next) {
  const Workload& w = *tables.workloads.find(c.spec.uid);
  const auto* queue = tables.cluster_queues.find(w.cluster_queue);
  const bool counts_pods = queue != nullptr && !queue->volcano;  // Volcano counts a gang whole
  return c.elastic && w.phase == Phase::kAdmitted && !w.external_scheduler && w.rejected().empty() &&
         w.checks.empty() && w.counts.empty() && counts_pods && differ_in_count_alone(w.spec, next);
}
std::vector<Cause> scale_up_obstacles(const EngineState& state, const Workload& w) {
  const auto where = resolve_queue(state, w.spec);
  const auto& queue = *state.tables.cluster_queues.find(w.cluster_queue);
  if (where.obstacle) return {*where.obstacle};
  if (auto obstacle = inactive_reason(state, queue)) return {*obstacle};
  std::vector<Cause> out;
  const auto from = w.counted_pods();
  for (const auto& shortfall :
       state.indexes.decisions.scale_up_shortfalls(w, for_pods(w.usage, from, w.scale_up_to() - from))) {
    out.push_back(shortfall_cause(shortfall, queue, true));
  }
  if (const auto name = lacking(state, scale_up_costs(state.tables, w, true)); !name.empty()) {
    out.push_back(cause_of("BudgetExhausted", fmt::format("Budget {} has too little free for them", name),
                           "raise spec.amount of the Budget, or wait for its next period"));
  }
  if (!out.empty()) return out;
  const bool strict = queue.strategy == Strategy::kStrictFifo || queue.backfill;
  if (strict && follows_pending(state, QueueOrder::of(w), queue.name)) {
    out.push_back(cause_of(
        "Behind",
        fmt::format("ClusterQueue {} is StrictFIFO, and its first pending workload goes before them", queue.name),
        "raise the priority of the Job"));
  }
  return out;
}
void ScaleUp::scale(const JobUpdated& c) {
  const WorkloadUid uid = c.spec.uid;
  const Workload& w = state_.workload(uid);
  if (*w.spec.kind != "Job" || c.at_once < 0) return transitions_.pods_ended(uid, c.ended);
  if (c.at_once == 0)
    return transitions_.evict(uid, "NoPods", "its Job requests no pods", state_.now + state_.options.eviction_grace);
  const auto needed = c.at_once - c.ended;
  if (needed <= 0) return;  // it ends
  const bool more = needed > w.counted_pods();
  const auto* queue = state_.tables.cluster_queues.find(w.cluster_queue);
  const bool counts_pods = w.spec.pod_sets.size() == 1 && queue != nullptr && !queue->volcano;
  const bool grows =
      w.external_scheduler ? counts_pods : may_scale_up(state_.tables, c, w.next() == nullptr ? w.spec : *w.next());
  request(uid, more && grows ? needed : 0);
  if (!more) transitions_.pods_ended(uid, w.running_pods() - needed);
}

/// `pods` = 0: no more than it has quota for.
void ScaleUp::request(const WorkloadUid& uid, std::int32_t pods) {
  const Workload& w = state_.workload(uid);
  if (w.scale_up_to() == pods) return;
  rows_.except(uid, [&](Exceptions& e) { e.scale_up_to = pods; });
  if (pods > 0) {
    state_.step.scale_up_requested.insert(uid);
    state_.reschedule(w.cluster_queue);
  }
  rows_.publish(Event::What::kUpdated, uid);
}

/// Pods that another scheduler binds run regardless of decisions here: their usage is counted as far as quota is free.
bool ScaleUp::count_running(const WorkloadUid& uid) {
  const Workload& w = state_.workload(uid);
  const auto from = w.counted_pods();
  std::int32_t fit = 0, end = w.scale_up_to() - from + 1;
  while (end - fit > 1) {
    const auto middle = fit + (end - fit) / 2;
    const bool fits = state_.indexes.decisions.scale_up_shortfalls(w, for_pods(w.usage, from, middle)).empty();
    (fits ? fit : end) = middle;
  }
  if (fit == 0) return false;
  rows_.update(uid, [&](Workload& row) {
    row.usage = for_pods(row.usage, from, from + fit);
    row.ended_pods -= fit;
    if (row.counted_pods() == row.scale_up_to()) row.except([](Exceptions& e) { e.scale_up_to = 0; });
  });
  rows_.publish(Event::What::kUpdated, uid);
  return true;
}

bool ScaleUp::attempt(const WorkloadUid& uid) {
  const Workload& w = state_.workload(uid);
  if (w.external_scheduler) return count_running(uid);
  if (!scale_up_obstacles(state_, w).empty()) return false;
  const auto from = w.counted_pods(), to = w.scale_up_to();
  budgets_.hold_for_scale_up(uid);
  const Spec spec = w.next() == nullptr ? w.spec : *w.next();
  const auto print = w.next() == nullptr ? w.spec_print : w.exceptions->next_print;
  const auto before = w.exceptions->scaled_from > 0 ? w.exceptions->scaled_from : w.running_pods();
  rows_.update(uid, [&](Workload& row) {
    row.usage = for_pods(row.usage, from, to);
    row.ended_pods = row.running_pods() - to;
  });
  rows_.reshape(uid, [&](Workload& row) {
    row.spec = spec;
    row.spec_print = print;
    row.ended_pods = row.running_pods() - to;
    row.except([&](Exceptions& e) {
      e.scale_up_to = 0;
      e.scaled_from = std::min(before, from);
      e.forget_next();
    });
  });
  rows_.publish(Event::What::kUpdated, uid);
  return true;
}

void ScaleUp::run(int tree, bool ahead) {
  std::vector<WorkloadUid> due;
  for (const auto& order : state_.indexes.scaling_up) {
    const Workload& w = state_.workload(order.uid);
    if (state_.indexes.decisions.tree_of(w.cluster_queue) != tree) continue;
    const bool follows = std::ranges::any_of(state_.indexes.waiting, [&](const auto& line) {
      return state_.indexes.decisions.tree_of(line.first) == tree && follows_pending(state_, order, line.first);
    });
    if (!ahead || !follows || w.external_scheduler) due.push_back(order.uid);
  }
  for (const auto& uid : due) (void)attempt(uid);
}

void ScaleUp::report() {
  for (const auto& uid : state_.step.scale_up_requested) {
    const Workload* w = state_.tables.workloads.find(uid);
    if (w == nullptr || w->phase != Phase::kAdmitted || !w->scale_up_pending()) continue;
    const auto obstacles = scale_up_obstacles(state_, *w);
    if (obstacles.empty()) continue;
    rows_.add_intent(
        "event.create", uid,
        fmt::format("{}, and the admitted pods keep running: {}", scale_up_of(*w), obstacles.front().message),
        "ScaleUpPending");
  }
}

}  // namespace qm::admission
