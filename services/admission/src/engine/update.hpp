#pragma once
#include "qm/admission/engine.hpp"

namespace qm::admission {

/// For a Job: whether only the number of its pods differs.
[[nodiscard]] bool differ_in_count_alone(const Spec& was, const Spec& is);

/// "2 more pods are pending for quota (4 of 6 pods are admitted)", for an elastic Job that scales up.
[[nodiscard]] std::string scale_up_of(const Workload& w);

/// Changes one row of a workload and updates all indexes and marks that depend on it.
template <class Fn>
void Engine::update(const WorkloadUid& uid, Fn&& fn) {
  const bool known = tables_.workloads.contains(uid);
  Workload& w = tables_.workloads.edit(uid);
  const bool held = w.holds_quota();
  const bool leaving = w.phase == Phase::kEvicting;
  const bool ended = w.ended();
  const Shared<QueueName> queue = w.cluster_queue;
  std::optional<Workload> payer;
  if (held && tables_.holds.size() > 0 && !holds_of(uid, w.attempt).empty()) payer = w;
  const Marks before = known ? marks_of(w) : Marks{};
  fn(w);
  tables_.workloads.unite(w);
  // Only a ready workload has a claim, and only a pending one waits for a budget.
  if (!w.ready()) w.claim.reset();
  if (w.phase != Phase::kPending) w.budget.clear();
  const auto tree = [&](const QueueName& name) { return indexes_.decisions.tree_of(name); };
  if (w.ended() || (known && w.cluster_queue != queue && tree(w.cluster_queue) != tree(queue))) w.preemptors.clear();
  const Marks after = marks_of(w);
  if (before.holds != after.holds || before.usage != after.usage) {
    const auto& of = before.holds.empty() ? after.holds : before.holds;
    if (indexes_.decisions.by_usage(of)) sample_usage(indexes_.decisions.local_of(w));
  }
  move(indexes_, w, before, after);
  if (payer && (!w.holds_quota() || w.attempt != payer->attempt)) release_holds(*payer);
  if (held != w.holds_quota()) touched_.insert(held ? queue : w.cluster_queue);
  if (!leaving && w.phase == Phase::kEvicting) dirty_.insert(indexes_.decisions.tree_of(w.cluster_queue));
  if (held && w.holds_quota() && before.usage != after.usage) {
    touched_.insert(queue);
    dirty_.insert(indexes_.decisions.tree_of(queue));
  }
  if (held && !w.holds_quota()) dirty_.insert(indexes_.decisions.tree_of(queue));
  if (!known || ended != w.ended()) release_old_preemptions(w.cluster_queue);
  if (w.ready()) dirty_.insert(indexes_.decisions.tree_of(w.cluster_queue));
}

template <class Fn>
void Engine::except(const WorkloadUid& uid, Fn&& fn) {
  update(uid, [&](Workload& row) { row.except(fn); });
}

/// Changes the request of a workload. Its held quota does not change.
template <class Fn>
void Engine::reshape(const WorkloadUid& uid, Fn&& fn) {
  const Workload& before = *tables_.workloads.find(uid);
  move(indexes_, before, marks_of(before), {});
  indexes_.decisions.reshape(uid);
  Workload& row = tables_.workloads.edit(uid);
  fn(row);
  row.claim.reset();
  tables_.workloads.unite(row);
  move(indexes_, row, {}, marks_of(row));
  dirty_.insert(indexes_.decisions.tree_of(row.cluster_queue));
}

}  // namespace qm::admission
