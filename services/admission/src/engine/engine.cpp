// The order of a step, and its undo. What a step decides stands in the parts.
#include "qm/admission/engine.hpp"

#include "parts.hpp"
#include "qm/base/assert.hpp"
#include "state/audit.hpp"
#include "state/budget_amounts.hpp"

#include <algorithm>
#include <utility>

namespace qm::admission {
namespace {

/// The trees and the rows count the same usage of the queues that changed.
void check_usage(const EngineState& state) {
  for (const auto& queue : state.step.touched) {
    const auto held = state.indexes.held.find(queue);
    if (held == state.indexes.held.end()) continue;
    for (const auto& [at, amount] : held->second) {
      // Quota that no queue has is not counted.
      const auto used = state.indexes.decisions.used(queue, at).value_or(amount);
      QM_ASSERT(used == amount, "queue {} flavor {} resource {}: {} used, {} held", queue, at.flavor, at.resource, used,
                amount);
    }
  }
}

/// The next instant at which a decision may follow without a command.
std::optional<Instant> wake_at(const EngineState& state) {
  std::optional<Instant> out;
  const auto wake = [&](Instant t) { out = out ? std::min(*out, t) : t; };
  const auto& indexes = state.indexes;
  if (!indexes.timers.empty()) wake(indexes.timers.begin()->first);
  if (!indexes.holds_due.empty()) wake(indexes.holds_due.begin()->first);
  for (const auto& [budget, waiting] : indexes.lacks) {
    if (const auto next = next_period(state, budget)) wake(*next);
  }
  if (indexes.quota_changes) wake(*indexes.quota_changes);
  if (const auto alarm = indexes.decisions.alarm(state.now)) wake(*alarm);
  return out;
}

/// Whether the end of a workload, or that of the binds of a gang, may help another one.
bool is_pending(const Indexes& indexes) {
  return !indexes.startable.empty() || !indexes.starting_gangs.empty() || !indexes.gated.empty() ||
         !indexes.scaling_up.empty() ||
         std::ranges::any_of(indexes.waiting, [](const auto& line) { return !line.second.all.empty(); });
}

}  // namespace

Engine::Engine(Options options) : parts_(std::make_unique<EngineParts>(std::move(options))) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

Output Engine::step(std::span<const Command> batch, Instant now) {
  auto& parts = *parts_;
  auto& state = parts.state;
  auto& step = state.step;
  QM_ASSERT(now >= state.now, "time went back from {} to {}", micros(state.now), micros(now));
  QM_ASSERT(state.steps.open.size() < kMostOpen, "{} steps are neither committed nor undone", state.steps.open.size());
  const Instant before = state.steps.last();
  if (!state.steps.open.empty()) state.tables.seal();
  state.steps.open.push_back(now);
  state.now = now;
  step = {};
  parts.proposals.drop_decisions();
  parts.windows.apply();
  parts.scheduler.apply_aging();
  for (step.command = 0; step.command < batch.size(); ++step.command) {
    std::visit([&](const auto& command) { parts.on(command); }, batch[step.command]);
  }
  parts.objects.resolve_changed();
  parts.windows.drain();
  parts.timers.fire();
  parts.requests.expire_submissions();
  for (const int tree : state.indexes.decisions.overdue(before, now)) step.dirty.insert(tree);
  parts.budgets.extend_holds();
  parts.budgets.review();
  // The free amounts of budgets also change with time.
  if (state.tables.budgets.size() > 0) {
    for (const auto& order : state.indexes.scaling_up) state.reschedule(state.workload(order.uid).cluster_queue);
  }
  parts.scheduler.run_marked();
  parts.checks.open_gates();
  parts.starts.start_in_turn();
  parts.scale_up.report();
  for (auto& [uid, preemptors] : state.indexes.decisions.take_preemptors()) {
    if (state.tables.workloads.contains(uid)) state.tables.workloads.edit(uid).preemptors = std::move(preemptors);
  }
  check_usage(state);
  parts.objects.close_queues();
  step.out.wake_at = wake_at(state);
  if (const auto next = parts.starts.next(); next && (!step.out.wake_at || *next < *step.out.wake_at))
    step.out.wake_at = next;
  step.out.pending = is_pending(state.indexes);
  return std::move(step.out);
}

/// Row by row if only workloads changed: removes the current rows from the indexes, and adds the earlier ones.
void Engine::undo() {
  auto& state = parts_->state;
  auto& decisions = state.indexes.decisions;
  QM_ASSERT(!state.steps.open.empty(), "no step to undo");
  state.steps.open.pop_back();
  const bool by_row = !state.windows_changed && decisions.reversible() && !state.tables.objects_changed();
  if (state.steps.open.empty()) state.windows_changed = false;
  std::vector<WorkloadUid> changed;
  std::set<int> trees;
  if (by_row) {
    state.tables.workloads.changed([&](const WorkloadUid& uid, const Workload* now) {
      changed.push_back(uid);
      if (now == nullptr) return;
      trees.insert(decisions.tree_of(now->cluster_queue));
      reindex(state.indexes, *now, marks_of(state, *now), {});
      decisions.take_out(*now);
    });
  }
  state.tables.rollback();
  state.submissions_end = Instant{};
  if (!by_row) {
    state.now = state.steps.last();  // windows and ages as of that step
    return build_indexes(state, state.indexes);
  }
  for (const auto& uid : changed) {
    const Workload* w = find(uid);
    w == nullptr ? decisions.drop(uid) : decisions.recall(*w);
  }
  for (const auto& uid : changed) {
    const Workload* w = find(uid);
    if (w == nullptr) continue;
    trees.insert(decisions.tree_of(w->cluster_queue));
    reindex(state.indexes, *w, {}, marks_of(state, *w));
  }
  for (const int tree : trees) decisions.look_again(tree);
}

void Engine::commit() {
  auto& state = parts_->state;
  QM_ASSERT(!state.steps.open.empty(), "no step to commit");
  state.steps.committed = state.steps.open.front();
  state.steps.open.pop_front();
  if (!state.steps.open.empty()) return state.tables.commit_sealed();
  state.windows_changed = false;
  state.tables.commit();
}

void Engine::loaded(Instant now) {
  auto& state = parts_->state;
  state.now = std::max(state.now, now);
  state.submissions_end = Instant{};
  build_indexes(state, state.indexes);
}

std::uint64_t Engine::digest() const { return digest_of(tables()); }
const Options& Engine::options() const { return parts_->state.options; }
const Tables& Engine::tables() const { return parts_->state.tables; }
Tables& Engine::tables_for_load() { return parts_->state.tables; }
const EngineState& Engine::state() const { return parts_->state; }
const Counters& Engine::counters() const { return parts_->state.counters; }
void Engine::check_laws() const { admission::check_laws(parts_->state); }

const Workload* Engine::find(const Namespace& ns, const std::string& name) const { return state().find(ns, name); }

}  // namespace qm::admission
