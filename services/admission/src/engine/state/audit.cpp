// The laws between rows and indexes, and those of each row.
#include "state/audit.hpp"

#include "qm/base/assert.hpp"
#include "state/engine_state.hpp"

namespace qm::admission {
namespace {

void check_budgets(const EngineState& state) {
  std::map<std::string, std::map<Instant, std::int64_t>> held;
  for (const auto& [key, hold] : state.tables.holds) {
    QM_ASSERT(state.tables.budgets.contains(key.budget), "{}/{} holds of budget {}, which does not exist", key.uid,
              key.attempt, key.budget);
    for (const auto& [from, amount] : hold.left) held[key.budget][from] += amount;
    const auto* w = state.tables.workloads.find(key.uid);
    const bool holds = w != nullptr && w->attempt == key.attempt && w->holds_quota();
    QM_ASSERT((hold.until != Instant{}) == holds,
              "{}/{} is over and its hold of budget {} grows, or the other way round", key.uid, key.attempt,
              key.budget);
  }
  for (const auto& [name, row] : state.tables.budgets) {
    for (const auto& [from, one] : row.account.allotments()) {
      for (const auto part :
           {one.granted, one.carried_in, one.spent, one.held, one.carried_out, one.lapsed, one.free()}) {
        QM_ASSERT(part >= 0, "budget {} is overdrawn in the period from {}", name, to_rfc3339(from));
      }
      QM_ASSERT(one.held == held[name][from], "budget {} has {} held from {}, the holds come to {}", name, one.held,
                to_rfc3339(from), held[name][from]);
    }
  }
}

void check_workload(const Tables& tables, const WorkloadUid& uid, const Workload& w) {
  QM_ASSERT(w.spec.uid == uid);
  QM_ASSERT(w.attempt >= 1, "workload {} attempt {}", uid, w.attempt);
  QM_ASSERT(w.holds_quota() || w.usage.empty(), "workload {} is {} and holds quota", uid, name_of(w.phase));
  QM_ASSERT(w.holds_quota() || w.nodes().empty(), "workload {} is {} and has nodes", uid, name_of(w.phase));
  QM_ASSERT(!w.gated || (w.phase == Phase::kQuotaReserved && w.retry_at == Instant{}), "workload {} is {} and gated",
            uid, name_of(w.phase));
  QM_ASSERT(w.holds_quota() || w.checks.empty() || w.ended(), "workload {} is {} and has checks", uid,
            name_of(w.phase));
  QM_ASSERT((w.phase != Phase::kRejected) || !w.rejected().empty(), "workload {} is Rejected without a reason", uid);
  QM_ASSERT(w.next() == nullptr || w.holds_quota() || w.ended(), "workload {} is {} and does not use its newest spec",
            uid, name_of(w.phase));
  QM_ASSERT(!w.claim || w.ready(), "workload {} is {} and has a claim", uid, name_of(w.phase));
  QM_ASSERT((w.phase == Phase::kEvicting) == w.eviction.has_value() || w.ended(), "workload {}", uid);
  if (!w.holds_quota()) return;
  // Gang: quota is held for each pod set in full, or for at least its minimum count.
  QM_ASSERT(tables.cluster_queues.contains(w.cluster_queue), "workload {} holds quota of the unknown queue {}", uid,
            w.cluster_queue);
  std::map<std::string, std::int64_t> held;
  for (const auto& [flavor_resource, amount] : w.usage) {
    if (flavor_resource.resource != "pods") held[flavor_resource.resource] += amount;
  }
  auto counted = w.running();
  if (w.ended_pods != 0) counted.pod_sets.at(0).count -= w.ended_pods;
  QM_ASSERT(held == requests_of(counted), "workload {} holds quota for pods other than its own", uid);
  QM_ASSERT(w.counts.empty() || w.counts.size() == w.spec.pod_sets.size(), "workload {}", uid);
  for (std::size_t i = 0; i < w.counts.size(); ++i) {
    const auto& set = w.spec.pod_sets[i];
    QM_ASSERT(w.counts[i] <= set.count && w.counts[i] >= (set.min_count > 0 ? set.min_count : set.count),
              "workload {} runs with {} pods of {}", uid, w.counts[i], set.name);
  }
}

}  // namespace

void check_laws(const EngineState& state) {
  Indexes fresh(state.options.rules);
  build_indexes(state, fresh);
  QM_ASSERT(fresh.decisions == state.indexes.decisions, "the trees differ from the rows");
  QM_ASSERT(fresh.holders == state.indexes.holders);
  QM_ASSERT(fresh.waiting == state.indexes.waiting);
  QM_ASSERT(fresh.quota_changes == state.indexes.quota_changes && fresh.draining == state.indexes.draining);
  QM_ASSERT(fresh.timers == state.indexes.timers);
  QM_ASSERT(fresh.ended == state.indexes.ended);
  QM_ASSERT(fresh.gated == state.indexes.gated);
  QM_ASSERT(fresh.startable == state.indexes.startable && fresh.starting_gangs == state.indexes.starting_gangs);
  QM_ASSERT(fresh.bound_gangs == state.indexes.bound_gangs);
  QM_ASSERT(fresh.scaling_up == state.indexes.scaling_up);
  QM_ASSERT(fresh.starting == state.indexes.starting);
  QM_ASSERT(fresh.names == state.indexes.names, "the index of names differs from the rows");
  QM_ASSERT(fresh.held == state.indexes.held);
  QM_ASSERT(fresh.held_by_local == state.indexes.held_by_local);
  QM_ASSERT(fresh.asked == state.indexes.asked);
  QM_ASSERT(fresh.wants == state.indexes.wants && fresh.lacks == state.indexes.lacks);
  QM_ASSERT(fresh.holds_due == state.indexes.holds_due);
  check_budgets(state);
  for (const auto& [uid, w] : state.tables.workloads) check_workload(state.tables, uid, w);
}

}  // namespace qm::admission
