// Budgets: allotments that follow the calendar, the cost of each attempt, and when it is final.
#include "qm/cost/engine.hpp"
#include "timeline.hpp"

#include <algorithm>

namespace qm::cost {
namespace {

/// How long after its end an attempt waits for the facts about its instances.
constexpr Duration kInstancesStart = std::chrono::hours(1);

Instant last_release(const AssignmentRow& row) {
  Instant last{};
  for (const auto& member : row.members) last = std::max(last, member.released);
  return last;
}

}  // namespace

bool Engine::any_budget() const {
  return std::any_of(state_.budgets.begin(), state_.budgets.end(),
                     [](const auto& one) { return !one.second.withdrawn; });
}

void Engine::on_fact(const BudgetsApplied& fact) {
  std::map<std::string, const Budget*> named;
  for (const auto& budget : fact.budgets) named[budget.name] = &budget;
  for (const auto& [name, budget] : named) {
    const auto* old = state_.budgets.find(name);
    if (old != nullptr && !old->withdrawn && old->budget == *budget) continue;
    auto& row = state_.budgets.edit(name);
    row.budget = *budget;
    row.withdrawn = false;
  }
  std::vector<std::string> gone;
  for (const auto& [name, row] : state_.budgets) {
    if (!row.withdrawn && !named.contains(name)) gone.push_back(name);
  }
  for (const auto& name : gone) {
    auto& row = state_.budgets.edit(name);
    row.withdrawn = true;
    row.periods.clear();
    row.prices.clear();
  }
}

/// Computes the current allotment and the next. A started period keeps its end when the calendar changes; its amount
/// changes at once.
void Engine::keep_budgets() {
  const Instant now = meta().now;
  if (!state_.budgets.dirty() && !state_.plans.dirty()) {
    const auto turn = next_turn();
    if (!turn || *turn > now) return;
  }
  const auto& plans = state_.plans.rows();
  const auto plan = plans.upper_bound(now) == plans.begin() ? plans.end() : std::prev(plans.upper_bound(now));
  std::optional<std::vector<HoldPrice>> prices;
  std::vector<std::pair<std::string, BudgetRow>> changed;
  for (const auto& [name, old] : state_.budgets) {
    if (old.withdrawn) continue;
    BudgetRow row = old;
    const Budget& budget = row.budget;
    std::erase_if(row.periods, [&](const auto& one) { return one.second.to <= now || one.first > now; });
    while (row.periods.size() < 2) {
      const bool first = row.periods.empty();
      const Instant at = first ? now : row.periods.rbegin()->second.to;
      const auto [from, to] = period_around(at, budget.period, budget.utc_offset);
      row.periods[first ? from : at].to = to;
    }
    for (auto& [from, one] : row.periods) {
      one.amount = budget.amount;
      one.carry_over_permille = budget.carry_over_permille;
    }
    row.prices.clear();
    if (budget.unit == BudgetUnit::kNanoUsd && plan != plans.end()) {
      if (!prices) prices = hold_prices(plan->second);
      row.prices = *prices;
    }
    if (row != old) changed.emplace_back(name, std::move(row));
  }
  for (auto& [name, row] : changed) state_.budgets.insert(name, std::move(row));
}

/// When the current period of a budget ends: then a new next period must be published.
std::optional<Instant> Engine::next_turn() const {
  std::optional<Instant> first;
  for (const auto& [name, row] : state_.budgets) {
    if (row.withdrawn) continue;
    const Instant to = row.periods.begin()->second.to;
    if (!first || to < *first) first = to;
  }
  return first;
}

void Engine::forget_ending(const AttemptId& id) {
  const auto it = index_.ending_at.find(id);
  if (it == index_.ending_at.end()) return;
  index_.ending.erase({it->second, id});
  index_.ending_at.erase(it);
}

// By the current row: an engine that is loaded from rows has the same index.
void Engine::index_ending(const AttemptId& id) {
  forget_ending(id);
  const auto* row = state_.assignments.find(id);
  if (!row->ended) return;
  const auto* spent = state_.spent.find(id);
  if (spent != nullptr && spent->final) return;
  const Instant due = last_release(*row) + options_.settle_after;
  index_.ending.emplace(due, id);
  index_.ending_at.emplace(id, due);
}

std::optional<Instant> Engine::next_ending() const {
  std::optional<Instant> first;
  if (!any_budget()) return first;
  for (const auto& [due, id] : index_.ending) {
    if (first && *first <= due) break;
    const auto* row = state_.assignments.find(id);
    const bool waits = due <= meta().now && row != nullptr && !knows_instances_of(*row);
    const Instant at = waits ? due + kInstancesStart : due;
    if (!first || at < *first) first = at;
  }
  return first;
}

/// Whether an instance is known for everything that it held. A node without a provider never has one.
bool Engine::knows_instances_of(const AssignmentRow& row) const {
  return std::ranges::all_of(row.members, [&](const Member& member) {
    const auto here = index_.instances.find(member.node);
    return here != index_.instances.end() && std::ranges::any_of(here->second, [&](const InstanceId& id) {
             const auto* instance_row = state_.instances.find(id);
             return instance_row != nullptr && instance_row->launched <= member.bound;
           });
  });
}

/// Posts the rest of attempts that ended a while ago, before the full hour if necessary, and publishes that it is
/// final.
void Engine::finalise(Output& out) {
  if (!any_budget()) return;
  std::size_t budget = options_.max_due;
  for (auto it = index_.ending.begin(); it != index_.ending.end() && it->first <= meta().now;) {
    const auto [due, id] = *it++;
    const auto* row = state_.assignments.find(id);
    if (row != nullptr && meta().now < due + kInstancesStart && !knows_instances_of(*row)) continue;
    const auto* spent = state_.spent.find(id);
    const bool open = row != nullptr && row->ended && !(spent != nullptr && spent->final);
    for (const auto& member : open ? row->members : std::vector<Member>{}) {
      const auto here = index_.instances.find(member.node);
      if (here == index_.instances.end() || member.released == Instant{}) continue;
      const auto instances = here->second;
      for (const auto& instance : instances) {
        const auto* instance_row = state_.instances.find(instance);
        if (instance_row == nullptr || member.bound < instance_row->launched) continue;
        const Instant until = std::min(member.released, end_of_life(*instance_row));
        if (settled(*instance_row) < until) settle_instance(instance, kNever, out, budget);
        if (settled(*state_.instances.find(instance)) < until) return;  // the rest follows immediately
      }
    }
    forget_ending(id);
    if (open) state_.spent.edit(id).final = true;
  }
}

void Engine::forget_spent(const AttemptId& id) {
  const auto* row = state_.spent.find(id);
  if (row == nullptr) return;
  forgotten_.push_back({id, {row->amount, true}, true});
  state_.spent.erase(id);
}

void Engine::submit_budgets(Output& out) {
  std::vector<std::string> changed;
  state_.budgets.changed([&](const std::string& name, const BudgetRow*) { changed.push_back(name); });
  for (const auto& name : changed) {
    auto& row = state_.budgets.edit(name);
    ++row.sequence;
    out.budgets.push_back(row);
  }
  if (!any_budget()) return;
  state_.spent.changed([&](const AttemptId& id, const SpentRow* row) {
    if (row != nullptr) out.spent.push_back({id, *row, false});
  });
  out.spent.insert(out.spent.end(), forgotten_.begin(), forgotten_.end());
}

}  // namespace qm::cost
