#include "state/indexes.hpp"

#include "lifecycle/starts.hpp"
#include "state/budget_amounts.hpp"
#include "state/deadlines.hpp"
#include "state/engine_state.hpp"
#include "state/queue_lookup.hpp"

#include <algorithm>

namespace qm::admission {

Marks marks_of(const EngineState& state, const Workload& w) {
  Marks out;
  out.known = true;
  out.timer = timer_of(state.options, w);
  if (w.ended() && w.job_deleted) out.ended = w.finished;
  if (w.holds_quota()) {
    out.holds = w.cluster_queue;
    out.usage = w.usage;
  }
  const auto answered = [](const auto& check) { return check.second.verdict == Verdict::kReady; };
  if (w.phase == Phase::kAdmitted && w.scale_up_to() > 0) out.grows = QueueOrder::of(w);
  if (w.gated && !w.spec.pods_expected && std::ranges::all_of(w.checks, answered)) out.gated = w.quota_reserved;
  const bool has_nodes = w.answer == Answer::kReserved || w.answer == Answer::kBound;
  if (w.phase == Phase::kQuotaReserved && !w.gated && has_nodes)
    out.startable = Turn{w.quota_reserved + (w.running_pods() - 1) * Starts::kLater, w.quota_position, w.spec.uid};
  if (w.phase == Phase::kAdmitted && w.answer == Answer::kReserved && w.running_pods() > 1)
    out.starts = StartingGang{w.admitted + Starts::counts_for(w.running_pods()), w.spec.uid, w.running_pods()};
  if (w.phase == Phase::kAdmitted && w.answer == Answer::kBound && w.running_pods() > 1) out.bound = w.admitted;
  out.starting = state.options.wait_for_pods_ready && w.holds_quota() && !w.gated && w.pods_ready == Instant{};
  if (w.phase != Phase::kPending) return out;
  if (state.tables.budgets.size() > 0 && (w.ready() || !w.budget.empty())) {
    out.asks.wants = budget_requests_of(state.tables, w);
    if (!w.budget.empty()) {
      const auto asked = out.asks.wants.find(w.budget);
      out.asks.lacks = {*w.budget, asked == out.asks.wants.end() ? 0 : asked->second};
      out.asks.wants.clear();
    }
  }
  out.waits.emplace(w.cluster_queue, QueueOrder::of(w));
  out.ready = w.ready();
  return out;
}
void reindex(Indexes& in, const Workload& w, const Marks& from, const Marks& to) {
  const auto& uid = w.spec.uid;
  const auto drop = [](auto& map, const auto& key, const auto& value) {
    const auto it = map.find(key);
    if (it == map.end()) return;
    it->second.erase(value);
    if (it->second.empty()) map.erase(it);
  };
  if (to.known && !from.known) in.names.insert(&w);
  if (from.known && !to.known) in.names.erase(&w);
  if (from.timer != to.timer) {
    if (from.timer) in.timers.erase({*from.timer, uid});
    if (to.timer) in.timers.emplace(*to.timer, uid);
  }
  if (from.gated != to.gated) {
    if (from.gated) in.gated.erase({*from.gated, uid});
    if (to.gated) in.gated.emplace(*to.gated, uid);
  }
  if (from.startable != to.startable) {
    if (from.startable) in.startable.erase(*from.startable);
    if (to.startable) in.startable.insert(*to.startable);
  }
  if (from.starts != to.starts) {
    if (from.starts) in.starting_gangs.erase(*from.starts);
    if (to.starts) in.starting_gangs.insert(*to.starts);
  }
  if (from.bound != to.bound) {
    if (from.bound) in.bound_gangs.erase({*from.bound, uid});
    if (to.bound) in.bound_gangs.emplace(*to.bound, uid);
  }
  if (from.grows != to.grows) {
    if (from.grows) in.scaling_up.erase(*from.grows);
    if (to.grows) in.scaling_up.insert(*to.grows);
  }
  if (from.starting != to.starting) to.starting ? (void)in.starting.insert(uid) : (void)in.starting.erase(uid);
  if (from.ended != to.ended) {
    if (from.ended) in.ended.erase({*from.ended, uid});
    if (to.ended) in.ended.emplace(*to.ended, uid);
  }
  if (from.holds != to.holds || from.usage != to.usage) {
    if (from.holds == to.holds) in.decisions.resize(w);
    const auto local = in.decisions.local_of(w);
    const auto count = [&](const QueueName& queue, const Usage& usage, std::int64_t sign) {
      if (!in.decisions.by_usage(queue)) return;
      auto& held = in.held_by_local[local];
      for (const auto& [at, amount] : usage) held[at.resource] += sign * amount;
      std::erase_if(held, [](const auto& one) { return one.second == 0; });
      if (held.empty()) in.held_by_local.erase(local);
    };
    if (!from.holds.empty()) count(from.holds, from.usage, -1);
    if (!to.holds.empty()) count(to.holds, to.usage, 1);
    if (!from.holds.empty()) {
      drop(in.holders, *from.holds, uid);
      auto& held = in.held[from.holds];
      for (const auto& [at, amount] : from.usage) held[at] -= amount;
      std::erase_if(held, [](const auto& one) { return one.second == 0; });
      if (held.empty()) in.held.erase(from.holds);
    }
    if (!to.holds.empty()) {
      in.holders[to.holds].insert(uid);
      for (const auto& [at, amount] : to.usage) {
        if (amount != 0) in.held[to.holds][at] += amount;
      }
    }
  }
  if (from.waits != to.waits || from.ready != to.ready) {
    if (from.waits) {
      const auto line = in.waiting.find(*from.waits->first);
      line->second.all.erase(from.waits->second);
      line->second.ready -= from.ready ? 1 : 0;
      if (line->second.all.empty()) in.waiting.erase(line);
    }
    if (to.waits) {
      auto& line = in.waiting[to.waits->first];
      line.all.insert(to.waits->second);
      line.ready += to.ready ? 1 : 0;
    }
  }
  const auto asked = in.asked.find(uid);
  const BudgetRequests before = asked == in.asked.end() ? BudgetRequests{} : asked->second;
  if (before != to.asks) {
    for (const auto& [budget, amount] : before.wants) drop(in.wants, budget, std::pair(amount, uid));
    if (before.lacks) drop(in.lacks, before.lacks->first, std::pair(before.lacks->second, uid));
    for (const auto& [budget, amount] : to.asks.wants) in.wants[budget].emplace(amount, uid);
    if (to.asks.lacks) in.lacks[to.asks.lacks->first].emplace(to.asks.lacks->second, uid);
    to.asks == BudgetRequests{} ? (void)in.asked.erase(uid) : (void)in.asked.insert_or_assign(uid, to.asks);
  }
  if (to.known) in.decisions.put(w);
}
/// Restores preemptions first: they determine which workloads share a class.
void build_indexes(const EngineState& state, Indexes& into) {
  into = Indexes(state.options.rules);
  for (const auto& [name, queue] : state.tables.cluster_queues) {
    const auto next = quota_changes_after(queue, state.now);
    if (next && (!into.quota_changes || *next < *into.quota_changes)) into.quota_changes = next;
    if (queue.drains && !queue.windows.empty() && !queue.volcano) into.draining.push_back(name);
  }
  into.decisions.build(state.tables.cluster_queues.rows(), state.tables.cohorts.rows(), state.tables.flavors.rows(),
                       state.tables.local_queues.rows(), idle_queues(state), state.now,
                       state.options.places ? TopologyNodes()
                                            : TopologyNodes(state.tables.topologies.rows(), state.tables.nodes.rows()));
  for (const auto& [uid, w] : state.tables.workloads) into.decisions.recall(w);
  for (const auto& [uid, w] : state.tables.workloads) reindex(into, w, {}, marks_of(state, w));
  for (const auto& [key, hold] : state.tables.holds) {
    if (hold.until != Instant{}) into.holds_due.emplace(hold.until, key);
  }
}

void rebuild_indexes(EngineState& state) {
  std::vector<WorkloadUid> bound;
  for (const auto& [uid, w] : state.tables.workloads) {
    if (w.claim || !w.preemptors.empty()) bound.push_back(uid);
  }
  for (const auto& uid : bound) {
    Workload& w = state.tables.workloads.edit(uid);
    w.claim.reset();
    w.preemptors.clear();
  }
  build_indexes(state, state.indexes);
}

}  // namespace qm::admission
