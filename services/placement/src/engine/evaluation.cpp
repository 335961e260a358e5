// The phases of a step, in order.
#include "engine/evaluation.hpp"

#include "qm/placement/disruption/proposal_lifecycle.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace qm::placement {
namespace {

constexpr int kMaxPasses = 8;  // of placements in a step, when held capacity is released

}  // namespace

/// A phase, the marks that it handles, and the marks that it may set. A mark that is set after its phase is handled
/// by the next step, except where `place` repeats its passes.
struct Evaluation::Phase {
  std::string_view name, handles, sets;
  void (Evaluation::*run)();
};

constexpr Evaluation::Phase Evaluation::kPhases[] = {
    {"foreign pods", "named", "effects", &Evaluation::report_foreign_pods},
    {"timers", "timers that are due", "nodes, attempts", &Evaluation::wake},
    {"nodes", "nodes", "attempts, evictions, capacity", &Evaluation::evaluate_nodes},
    {"attempts", "attempts", "nodes, requested, evictions", &Evaluation::reconcile},
    {"released nodes", "nodes", "capacity", &Evaluation::evaluate_nodes},
    {"proposals", "nodes evaluated so far", "reservation_waiters, proposals_to_recheck", &Evaluation::recheck},
    {"placement", "requested, reservation_waiters, proposals_to_recheck, capacity", "attempts, nodes, demand",
     &Evaluation::place},
    {"MIG repartition", "short workloads, search timer", "nodes, demand", &Evaluation::repartition},
    {"repartitioned nodes", "nodes", "capacity", &Evaluation::evaluate_nodes},
    {"preemption", "workloads without a placement, search timer", "capacity", &Evaluation::preempt},
    {"defragmentation", "the defragmentation run, search timer", "capacity", &Evaluation::defragment},
    {"offers", "capacity, backoff_retries", "requeue, demand", &Evaluation::offer},
    {"publication", "changed, evictions, node_changed, demand, requeue", "events", &Evaluation::publish},
};

void Evaluation::run() {
  for (const Phase& phase : kPhases) (this->*phase.run)();
  scratch_.out.wake_at = next_timer();
  const State& state = parts_.state;
  scratch_.out.pending = !state.synced() || !state.index.short_of.empty() || !state.index.unplaced.empty();
}

void Evaluation::report_foreign_pods() {
  for (const std::string& pod : scratch_.named) parts_.observations.report_foreign(pod);
}

void Evaluation::wake() {
  const State& state = parts_.state;
  for (const auto& [name, due] : state.index.not_ready) {
    if (due <= scratch_.now) scratch_.nodes.insert(name);
  }
  for (const auto& [name, until] : state.index.kept) {
    if (until <= scratch_.now) scratch_.nodes.insert(name);
  }
  for (const auto& [due, id] : state.index.timed) {
    if (due > scratch_.now) break;
    scratch_.attempts.insert(id);
  }
  for (const NodeName& name : state.index.with_layout_timer) {
    if (state.tables.repartitions.find(name)->wake <= scratch_.now) scratch_.nodes.insert(name);
  }
}

void Evaluation::evaluate_nodes() {
  const auto names = std::exchange(scratch_.nodes, {});
  for (const NodeName& name : names) parts_.nodes.evaluate_node(name);
  seen_.insert(names.begin(), names.end());
}

void Evaluation::reconcile() {
  while (!scratch_.attempts.empty()) {
    const AttemptId id = *scratch_.attempts.begin();
    scratch_.attempts.erase(scratch_.attempts.begin());
    parts_.reconciler.reconcile(id);
  }
}

void Evaluation::recheck() { parts_.planner.recheck(seen_); }

// A placement may release capacity in the same step: that of ranks that have succeeded, and that of proposals.
void Evaluation::place() {
  for (int pass = 0; pass < kMaxPasses; ++pass) {
    scratch_.freed = false;
    parts_.scheduler.place_pending();
    if (pass == 0) parts_.planner.advance();
    for (int again = 0; again < kMaxPasses && std::exchange(scratch_.holds_released, false); ++again)
      parts_.scheduler.place_pending();
    reconcile();
    evaluate_nodes();
    if (!scratch_.freed) break;
  }
}

void Evaluation::repartition() { parts_.repartitions.repartition(); }
void Evaluation::preempt() { parts_.planner.propose(); }

void Evaluation::defragment() {
  parts_.defragmentation.run();
  seen_.insert(scratch_.nodes.begin(), scratch_.nodes.end());
  for (const NodeName& name : scratch_.nodes) parts_.rows.refresh_capacity(name);
}

void Evaluation::offer() { parts_.requeue.offer(); }

// Complete states, once per key.
void Evaluation::publish() {
  State& state = parts_.state;
  for (const NodeName& name : seen_) parts_.nodes.publish_status(name);
  auto& events = scratch_.out.events;
  for (const bool holding : {false, true}) {  // releases before reservations
    for (const AttemptId& id : scratch_.changed) {
      const Assignment* row = state.tables.assignments.find(id);
      if (row == nullptr || row->holds() != holding) continue;
      parts_.audit.check_assignment(id, *row);
      ++state.tables.assignments.edit(id).revision;
      events.push_back(AssignmentChanged{id, *row, false});
    }
  }
  for (const AttemptId& id : scratch_.evictions) {
    const Assignment* row = state.tables.assignments.find(id);
    if (row != nullptr && row->eviction) events.push_back(EvictionRequested{id, *row->eviction, false});
  }
  for (const NodeName& name : scratch_.node_changed) {
    if (const Node* node = state.tables.nodes.find(name)) events.push_back(NodeChanged{name, *node, false});
  }
  if (scratch_.demand) events.push_back(DemandChanged{parts_.demand.demand()});
  if (scratch_.requeue) events.push_back(RequeueChanged{parts_.requeue.requeue()});
  for (const NodeName& name : seen_) parts_.audit.check_node(name);
}

std::optional<Instant> Evaluation::next_timer() const {
  static const std::set<WorkloadUid> kNoWorkloads;
  const State& state = parts_.state;
  std::optional<Instant> next;
  const auto at = [&](Instant t) {
    if (!next || t < *next) next = t;
  };
  for (const auto& [name, due] : state.index.not_ready) {
    if (due != Instant::max()) at(due);
  }
  for (const auto& [name, until] : state.index.kept) {
    if (until != Instant::max()) at(until);
  }
  for (const NodeName& name : state.index.with_layout_timer) at(state.tables.repartitions.find(name)->wake);
  if (state.synced() && state.meta().requeue_at != Instant{}) at(state.meta().requeue_at);
  for (const auto& [due, id] : state.index.timed) {
    if (due <= state.last_now && !state.tables.assignments.find(id)->holds()) continue;  // kept by its pods
    at(due);
    break;
  }
  for (const WorkloadUid& uid : state.index.with_proposal) {
    const Instant due =
        disruption::wake_at(*state.tables.proposals.find(uid), state.options.preemption, state.options.defrag);
    if (due != Instant::max()) at(due);
  }
  if (state.options.defrag.on && state.synced() && !state.defrag_run().is_active())
    at(std::max(state.defrag_run().next, state.last_now + Duration(1)));
  for (const WorkloadUid& uid :
       state.options.preemption.on&& state.synced() ? state.index.without_placement : kNoWorkloads) {
    const auto search = parts_.planner.earliest(uid);
    if (search)
      at(std::max({*search, state.meta().searched + state.options.preemption.every, state.last_now + Duration(1)}));
  }
  for (const WorkloadUid& uid :
       state.options.mig_repartition.on&& state.synced() ? state.index.short_of : kNoWorkloads) {
    const auto search = parts_.search.earliest(uid);
    if (search)
      at(std::max({*search, state.meta().repartition_searched + state.options.mig_repartition.every,
                   state.last_now + Duration(1)}));
  }
  return next;
}

}  // namespace qm::placement
