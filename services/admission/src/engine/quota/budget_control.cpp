#include "quota/budget_control.hpp"

#include "qm/base/assert.hpp"
#include "state/budget_amounts.hpp"
#include "state/cause.hpp"
#include "state/queue_lookup.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

constexpr Duration kShortestStep = std::chrono::minutes(1);  ///< minimum extension of a hold

}  // namespace

// ---- workloads that budgets block ----

void BudgetControl::wait_for(const WorkloadUid& uid, const std::string& budget) {
  const Workload& w = state_.workload(uid);
  if (w.budget == budget) return;
  const auto where = resolve_queue(state_, w.spec);
  rows_.update(uid, [&](Workload& row) {
    row.budget = budget;
    row.reason = waiting_reason(row, where.obstacle);
  });
}

void BudgetControl::review() {
  std::vector<WorkloadUid> changed;
  for (const auto& [name, row] : state_.tables.budgets) {
    const auto free = free_of(row, state_.now);
    if (const auto wants = state_.indexes.wants.find(name); wants != state_.indexes.wants.end()) {
      for (auto it = wants->second.lower_bound({free + 1, WorkloadUid()}); it != wants->second.end(); ++it) {
        changed.push_back(it->second);
      }
    }
    if (const auto lacks = state_.indexes.lacks.find(name); lacks != state_.indexes.lacks.end()) {
      for (const auto& [ask, uid] : lacks->second) {
        if (ask > free) break;
        changed.push_back(uid);
      }
    }
  }
  for (const auto& uid : changed)
    wait_for(uid, lacking(state_, budget_requests_of(state_.tables, state_.workload(uid))));
}

// ---- holds ----

bool BudgetControl::reserve_holds(const WorkloadUid& uid, const Assignment& assignment) {
  const Workload& w = state_.workload(uid);
  std::map<std::string, std::int64_t> hard, all;
  for (const auto& [name, row] : state_.tables.budgets) {
    if (!pays_for(row.terms, w)) continue;
    const auto amount =
        cost_of(state_.tables, row.terms, w, assignment.flavors, assignment.counts, expected_run(row.terms, w));
    all[name] = amount;
    if (!row.terms.soft) hard[name] = amount;
  }
  if (const auto name = lacking(state_, hard); !name.empty()) {
    wait_for(uid, name);
    return false;
  }
  for (const auto& [name, amount] : all) {
    const Instant until =
        state_.now + std::max(kShortestStep, expected_run(state_.tables.budgets.find(name)->terms, w));
    holds_.edit({uid, w.attempt, name}, [&](forecast::Budget& account, Hold& hold) {
      hold.until = until;
      // A soft budget holds nothing if less than the amount is free; spending is counted nevertheless.
      const auto taken = account.take(hold, amount, state_.now);
      QM_ASSERT(taken || !hard.contains(name), "budget {} had {} free: {}", name, amount, taken.error().message);
    });
  }
  return true;
}

void BudgetControl::hold_for_scale_up(const WorkloadUid& uid) {
  const Workload& w = state_.workload(uid);
  for (const auto& [name, amount] : scale_up_costs(state_.tables, w, false)) {
    const Instant until = state_.now + expected_run(state_.tables.budgets.find(name)->terms, w);
    holds_.edit({uid, w.attempt, name}, [&](forecast::Budget& account, Hold& hold) {
      if (hold.until == Instant{}) hold.until = until;
      (void)account.take(hold, amount, state_.now);  // a soft budget may hold less
    });
  }
}

void BudgetControl::extend_holds() {
  while (!state_.indexes.holds_due.empty() && state_.indexes.holds_due.begin()->first <= state_.now) {
    const HoldKey key = state_.indexes.holds_due.begin()->second;
    const Workload& w = state_.workload(key.uid);
    const auto& terms = state_.tables.budgets.find(key.budget)->terms;
    const Instant planned =
        w.admitted == Instant{} ? state_.now + expected_run(terms, w) : w.admitted + expected_run(terms, w);
    const Duration step = std::max(kShortestStep, terms.default_run);
    const auto more = cost_of(state_.tables, terms, w, w.flavors, w.counts, step);
    holds_.edit(key, [&](forecast::Budget& account, Hold& hold) {
      if (planned > state_.now) {
        hold.until = planned;  // it started later than it got quota
        return;
      }
      (void)account.take(hold, more, state_.now);
      hold.until = state_.now + step;
    });
  }
}

// ---- messages of cost ----

void BudgetControl::on(const BudgetGranted& c) {
  const auto* known = state_.tables.budgets.find(c.budget);
  if (known != nullptr && c.sequence <= known->sequence) {
    ++state_.counters.stale;
    return;
  }
  const auto grant = [&](forecast::Budget account) -> std::optional<forecast::Budget> {
    account.forget_future(state_.now);
    for (const auto& [period, amount, carry] : c.allotments) {
      if (!account.grant(period, amount, carry, state_.now)) return std::nullopt;
    }
    return account;
  };
  // Amounts in another unit, or in periods that do not match, are not comparable: the budget starts from zero.
  auto account =
      known == nullptr || c.withdrawn || known->terms.dollars != c.terms.dollars ? std::nullopt : grant(known->account);
  if (known != nullptr && !account) forget_budget(c.budget);
  if (c.withdrawn) return;
  if (!account) account = grant({});
  QM_ASSERT(account, "budget {}: its periods overlap", c.budget);
  auto& row = state_.tables.budgets.edit(c.budget);
  const bool others = row.sequence == 0 || !(row.terms == c.terms);
  row = {c.terms, c.sequence, std::move(*account)};
  if (others) refresh_requests();
}

void BudgetControl::forget_budget(const std::string& name) {
  std::vector<HoldKey> held;
  for (const auto& [key, hold] : state_.tables.holds) {
    if (key.budget == name) held.push_back(key);
  }
  for (const auto& key : held) holds_.drop(key);
  std::vector<WorkloadUid> waiting;
  if (const auto lacks = state_.indexes.lacks.find(name); lacks != state_.indexes.lacks.end()) {
    for (const auto& [ask, uid] : lacks->second) waiting.push_back(uid);
  }
  state_.tables.budgets.erase(name);
  refresh_requests();
  for (const auto& uid : waiting) wait_for(uid, {});
}

/// Terms changed, so all pending workloads request other amounts.
void BudgetControl::refresh_requests() {
  for (const auto& [uid, w] : state_.tables.workloads) {
    if (w.phase != Phase::kPending) continue;
    const Marks marks = marks_of(state_, w);
    reindex(state_.indexes, w, marks, marks);
  }
}

void BudgetControl::on(const SpendingUpdated& c) {
  for (const auto& key : holds_.of(c.uid, c.attempt)) {
    const auto spent = state_.tables.budgets.find(key.budget)->terms.dollars ? c.nano_usd : (c.gpu_micros + 999) / 1000;
    if (!c.forgotten)
      holds_.edit(key, [&](forecast::Budget& account, Hold& hold) {
        const auto settled = account.settle(hold, std::max<std::int64_t>(0, spent), state_.now);
        QM_ASSERT(settled, "budget {}: {}", key.budget, settled.error().message);
      });
    if (c.final) holds_.drop(key);
  }
}

}  // namespace qm::admission
