#pragma once
#include "quota/holds.hpp"
#include "quota/local_usages.hpp"
#include "state/engine_state.hpp"

#include <optional>
#include <string>

namespace qm::admission {

/// Writes rows of workloads, with the indexes and marks that depend on them, and emits their events and intents.
///
/// Writes   workloads; holds and usage of local queues where quota is reserved or released.
/// Laws     see check_laws(): after each call the indexes are those of the rows.
/// Cost     update: O(log workloads) for each index entry that changes.
class WorkloadRows {
 public:
  WorkloadRows(EngineState& state, Holds& holds, LocalUsages& usage) : state_(state), holds_(holds), usage_(usage) {}

  /// Calls fn(Workload&) on the row; a row that does not exist is created.
  template <class Fn>
  void update(const WorkloadUid& uid, Fn&& fn);
  /// Calls fn(Exceptions&) on the rare fields of the row.
  template <class Fn>
  void except(const WorkloadUid& uid, Fn&& fn) {
    update(uid, [&](Workload& row) { row.except(fn); });
  }
  /// Changes the request of a workload. Its held quota does not change.
  template <class Fn>
  void reshape(const WorkloadUid& uid, Fn&& fn);
  /// Removes the row and its index entries. Its state must be in no quota tree.
  void erase(const WorkloadUid& uid);

  /// Increments the version of the row and emits the event with the row as it is now.
  void publish(Event::What what, const WorkloadUid& uid);
  /// Emits an intent for the executor. `object` and `reason` as in Intent.
  void add_intent(const char* kind, const WorkloadUid& uid, std::string object = {}, std::string reason = {});

  /// By uid, or by namespace and name. Null if there is no live workload; the error reply is then set.
  [[nodiscard]] const Workload* find_unfinished(const WorkloadUid& uid, const Namespace& ns, const std::string& name);

 private:
  EngineState& state_;
  Holds& holds_;
  LocalUsages& usage_;
};

template <class Fn>
void WorkloadRows::update(const WorkloadUid& uid, Fn&& fn) {
  auto& tables = state_.tables;
  auto& indexes = state_.indexes;
  auto& step = state_.step;
  const bool known = tables.workloads.contains(uid);
  Workload& w = tables.workloads.edit(uid);
  const bool held = w.holds_quota();
  const bool on_nodes = !w.nodes().empty();
  const bool leaving = w.phase == Phase::kEvicting;
  const bool ended = w.ended();
  const Shared<QueueName> queue = w.cluster_queue;
  std::optional<Workload> payer;
  if (held && tables.holds.size() > 0 && !holds_.of(uid, w.attempt).empty()) payer = w;
  const Marks before = known ? marks_of(state_, w) : Marks{};
  fn(w);
  tables.workloads.unite(w);
  // Only a ready workload has a claim, and only a pending one waits for a budget.
  if (!w.ready()) w.claim.reset();
  if (w.phase != Phase::kPending) w.budget.clear();
  const auto tree = [&](const QueueName& name) { return indexes.decisions.tree_of(name); };
  if (w.ended() || (known && w.cluster_queue != queue && tree(w.cluster_queue) != tree(queue))) w.preemptors.clear();
  const Marks after = marks_of(state_, w);
  if (before.holds != after.holds || before.usage != after.usage) {
    const auto& of = before.holds.empty() ? after.holds : before.holds;
    if (indexes.decisions.by_usage(of)) usage_.sample(indexes.decisions.local_of(w));
  }
  reindex(indexes, w, before, after);
  if (payer && (!w.holds_quota() || w.attempt != payer->attempt)) holds_.release(*payer);
  if (held != w.holds_quota()) step.touched.insert(held ? queue : w.cluster_queue);
  if (!leaving && w.phase == Phase::kEvicting) state_.reschedule(w.cluster_queue);
  if (held && w.holds_quota() && before.usage != after.usage) {
    step.touched.insert(queue);
    state_.reschedule(queue);
  }
  if (held && !w.holds_quota()) state_.reschedule(queue);
  if (on_nodes && w.nodes().empty()) state_.reschedule_all();  // all trees share the nodes
  // A workload arrived or ended: earlier preemptions may no longer bind.
  if (!known || ended != w.ended()) indexes.decisions.release_old_preemptions(w.cluster_queue, state_.now);
  if (w.ready()) state_.reschedule(w.cluster_queue);
}

template <class Fn>
void WorkloadRows::reshape(const WorkloadUid& uid, Fn&& fn) {
  auto& indexes = state_.indexes;
  const Workload& before = state_.workload(uid);
  reindex(indexes, before, marks_of(state_, before), {});
  indexes.decisions.reshape(uid);
  Workload& row = state_.tables.workloads.edit(uid);
  fn(row);
  row.claim.reset();
  state_.tables.workloads.unite(row);
  reindex(indexes, row, {}, marks_of(state_, row));
  state_.reschedule(row.cluster_queue);
}

}  // namespace qm::admission
