// Budgets. A workload that is about to get quota takes a hold of its expected cost from each budget that pays for
// it, or stays pending; workloads behind it are not blocked by that. A hold is extended while the workload runs
// longer than expected. It is released when cost has settled the attempt, or at once if the attempt never started.
// Nothing here evicts: the cost of work that runs on without free budget is owed.
//
// Before trees are scheduled, workloads that cannot be paid for are taken out of them, so that they preempt nothing.
#include "cause.hpp"
#include "qm/admission/budget_view.hpp"
#include "qm/base/assert.hpp"
#include "update.hpp"

#include <algorithm>
#include <limits>

namespace qm::admission {
namespace {

constexpr Duration kShortestStep = std::chrono::minutes(1);  ///< minimum extension of a hold
constexpr Duration kLongestRun = std::chrono::hours(24 * 366 * 10);

/// Saturates: no budget has the largest value.
std::int64_t plus(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

std::int64_t gpu_milli_of(const PodSet& set, std::int32_t count) {
  WorkloadSpec one;
  one.pod_sets = {set};
  one.pod_sets.front().count = count;
  return one.total_gpu_milli();
}

/// The most expensive price that matches nodes with these labels.
std::int64_t price_of(const BudgetTerms& terms, const Labels& labels) {
  const auto fits = [&](const char* label, const std::string& value) {
    const auto found = labels.find(label);
    return value.empty() || found == labels.end() || found->second == value;
  };
  std::int64_t most_expensive = 0;
  for (const auto& price : terms.prices) {
    if (fits("node.kubernetes.io/instance-type", price.instance_type) &&
        fits("nvidia.com/gpu.product", price.gpu_product)) {
      most_expensive = std::max(most_expensive, price.nano_usd_gpu_hour);
    }
  }
  return most_expensive;
}

std::int64_t projected(std::int64_t spent, Duration length, Duration passed) {
  __extension__ using Wide = __int128;
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  const Wide out = Wide{spent} * length.count() / passed.count();
  return out > kMost ? kMost : static_cast<std::int64_t>(out);
}

}  // namespace

std::string show_budget(bool dollars, std::int64_t amount) {
  if (dollars) return fmt::format("{}.{:02} USD", amount / 1'000'000'000, amount / 10'000'000 % 100);
  const std::int64_t hours = amount / 3'600'000, thousandths = amount % 3'600'000 / 3'600;
  if (thousandths == 0) return fmt::format("{} GPU-hours", hours);
  std::string text = fmt::format("{}.{:03}", hours, thousandths);
  while (text.back() == '0') text.pop_back();
  return text + " GPU-hours";
}

BudgetView view_of(const BudgetRow& row, Instant now) {
  BudgetView out;
  auto account = row.account;
  out.free = account.free(now);
  out.owed = account.owed();
  for (const auto& [from, one] : account.allotments()) {
    out.held += one.held;
    if (from > now && !out.next) out.next = from;
  }
  if (const auto* current = account.at(now)) {
    out.period = current->period;
    out.granted = current->granted + current->carried_in;
    out.spent = current->spent;
    const auto length = current->period.to - current->period.from, passed = now - current->period.from;
    if (passed > Duration{0}) out.projected = projected(out.spent + out.owed, length, passed);
  }
  return out;
}

// ---- amounts of a workload ----

bool Engine::pays_for(const BudgetTerms& terms, const Workload& w) {
  if (!terms.cluster_queue.empty()) return terms.cluster_queue == w.cluster_queue;
  return terms.ns.empty() ? terms.team == w.spec.team : terms.ns == w.spec.ns;
}

/// The declared run time, or the rest of the maximum execution time, or else the default of the budget.
Duration Engine::expected_run(const BudgetTerms& terms, const Workload& w) {
  if (w.spec.expected_runtime > Duration{0}) return std::min(kLongestRun, w.spec.expected_runtime);
  if (w.max_execution > Duration{0}) return std::clamp(w.max_execution - w.ran, Duration{0}, kLongestRun);
  return terms.default_run;
}

/// The cost of a run: with the assigned flavors, or else with the most expensive flavors that its queue offers.
std::int64_t Engine::cost_of(const BudgetTerms& terms, const Workload& w, const Flavors& flavors, const Counts& counts,
                             Duration run) const {
  std::int64_t sum = 0;
  const auto* queue = tables_.cluster_queues.find(w.cluster_queue);
  for (std::size_t i = 0; i < w.spec.pod_sets.size(); ++i) {
    const auto& set = w.spec.pod_sets[i];
    const auto gpus = gpu_milli_of(set, i < counts.size() ? counts[i] : set.count);
    if (gpus == 0) continue;
    if (!terms.dollars) {
      sum = plus(sum, forecast::gpu_millis(gpus, run));
      continue;
    }
    std::optional<std::int64_t> price;
    const auto consider = [&](const FlavorName& name) {
      const auto* flavor = tables_.flavors.find(name);
      Labels labels = set.shape.node_selector;
      for (const auto& [key, value] : flavor == nullptr ? Labels{} : flavor->node_labels) {
        if (const auto [at, fresh] = labels.emplace(key, value); !fresh && at->second != value) return;
      }
      price = std::max(price.value_or(0), price_of(terms, labels));
    };
    if (const auto got = flavors.find(set.name); got != flavors.end()) {
      for (const auto& [resource, flavor] : got->second) consider(flavor);
    } else if (queue != nullptr) {
      for (const auto& group : queue->groups) {
        for (const auto& offer : group.flavors) consider(offer.flavor);
      }
    }
    sum = plus(sum, forecast::nano_usd(price.value_or(price_of(terms, set.shape.node_selector)), gpus, run));
  }
  return sum;
}

/// The amounts that a pending workload has to hold, of the budgets that block admission.
std::map<std::string, std::int64_t> Engine::budget_requests_of(const Workload& w) const {
  std::map<std::string, std::int64_t> out;
  for (const auto& [name, row] : tables_.budgets) {
    if (row.terms.soft || !pays_for(row.terms, w)) continue;
    out[name] = cost_of(row.terms, w, {}, {}, expected_run(row.terms, w));
  }
  return out;
}

std::int64_t Engine::free_of(const BudgetRow& row) const {
  auto probe = row.account;
  return probe.free(now_);
}

/// The first budget that cannot pay; empty if all can.
std::string Engine::lacking(const std::map<std::string, std::int64_t>& asks) const {
  for (const auto& [name, amount] : asks) {
    if (amount > free_of(*tables_.budgets.find(name))) return name;
  }
  return {};
}

// ---- workloads that budgets block ----

void Engine::wait_for_budget(const WorkloadUid& uid, const std::string& budget) {
  const Workload& w = *tables_.workloads.find(uid);
  if (w.budget == budget) return;
  const Lead where = lead(w.spec);
  update(uid, [&](Workload& row) {
    row.budget = budget;
    row.reason = waiting_reason(row, where.obstacle);
  });
}

/// Blocks workloads that request more than is free, and unblocks those that no longer do.
void Engine::review_budgets() {
  std::vector<WorkloadUid> changed;
  for (const auto& [name, row] : tables_.budgets) {
    const auto free = free_of(row);
    if (const auto wants = indexes_.wants.find(name); wants != indexes_.wants.end()) {
      for (auto it = wants->second.lower_bound({free + 1, WorkloadUid()}); it != wants->second.end(); ++it) {
        changed.push_back(it->second);
      }
    }
    if (const auto lacks = indexes_.lacks.find(name); lacks != indexes_.lacks.end()) {
      for (const auto& [ask, uid] : lacks->second) {
        if (ask > free) break;
        changed.push_back(uid);
      }
    }
  }
  for (const auto& uid : changed) wait_for_budget(uid, lacking(budget_requests_of(*tables_.workloads.find(uid))));
}

/// The next instant at which blocked workloads may be paid for without an event: the start of the next period.
std::optional<Instant> Engine::next_period(const std::string& budget) const {
  const auto& row = *tables_.budgets.find(budget);
  for (const auto& [from, one] : row.account.allotments()) {
    if (from > now_) return from;
  }
  return std::nullopt;
}

// ---- holds ----

template <class Fn>
void Engine::edit_hold(const HoldKey& key, Fn&& fn) {
  auto& account = tables_.budgets.edit(key.budget).account;
  Hold& hold = tables_.holds.edit(key);
  indexes_.holds_due.erase({hold.until, key});
  fn(account, hold);
  if (hold.until != Instant{}) indexes_.holds_due.emplace(hold.until, key);
}

void Engine::drop_hold(const HoldKey& key) {
  edit_hold(key, [&](forecast::Budget& account, Hold& hold) {
    account.release(hold, now_);
    hold.until = Instant{};
  });
  tables_.holds.erase(key);
}

std::vector<HoldKey> Engine::holds_of(const WorkloadUid& uid, std::int32_t attempt) const {
  std::vector<HoldKey> out;
  const auto& rows = tables_.holds.rows();
  for (auto it = rows.lower_bound({uid, attempt, {}});
       it != rows.end() && it->first.uid == uid && it->first.attempt == attempt; ++it) {
    out.push_back(it->first);
  }
  return out;
}

/// Takes holds from all budgets that pay for it, or from none; then it stays pending.
bool Engine::reserve_holds(const WorkloadUid& uid, const Assignment& assignment) {
  const Workload& w = *tables_.workloads.find(uid);
  std::map<std::string, std::int64_t> hard, all;
  for (const auto& [name, row] : tables_.budgets) {
    if (!pays_for(row.terms, w)) continue;
    const auto amount = cost_of(row.terms, w, assignment.flavors, assignment.counts, expected_run(row.terms, w));
    all[name] = amount;
    if (!row.terms.soft) hard[name] = amount;
  }
  if (const auto name = lacking(hard); !name.empty()) {
    wait_for_budget(uid, name);
    return false;
  }
  for (const auto& [name, amount] : all) {
    const Instant until = now_ + std::max(kShortestStep, expected_run(tables_.budgets.find(name)->terms, w));
    edit_hold({uid, w.attempt, name}, [&](forecast::Budget& account, Hold& hold) {
      hold.until = until;
      // A soft budget holds nothing if less than the amount is free; spending is counted nevertheless.
      const auto taken = account.take(hold, amount, now_);
      QM_ASSERT(taken || !hard.contains(name), "budget {} had {} free: {}", name, amount, taken.error().message);
    });
  }
  return true;
}

/// The cost of the added pods, by budget.
std::map<std::string, std::int64_t> Engine::scale_up_costs(const Workload& w, bool hard_alone) const {
  std::map<std::string, std::int64_t> out;
  for (const auto& [name, row] : tables_.budgets) {
    if (!pays_for(row.terms, w) || (hard_alone && row.terms.soft)) continue;
    out[name] =
        cost_of(row.terms, w, w.flavors, Counts{w.scale_up_to() - w.counted_pods()}, expected_run(row.terms, w));
  }
  return out;
}

void Engine::hold_for_scale_up(const WorkloadUid& uid) {
  const Workload& w = *tables_.workloads.find(uid);
  for (const auto& [name, amount] : scale_up_costs(w, false)) {
    const Instant until = now_ + expected_run(tables_.budgets.find(name)->terms, w);
    edit_hold({uid, w.attempt, name}, [&](forecast::Budget& account, Hold& hold) {
      if (hold.until == Instant{}) hold.until = until;
      (void)account.take(hold, amount, now_);  // a soft budget may hold less
    });
  }
}

/// The attempt is over. If it started, its hold stays until cost has settled it. If another scheduler bound its
/// pods, cost reports nothing, and it is settled here.
void Engine::release_holds(const Workload& before) {
  const bool started = before.phase == Phase::kAdmitted || before.phase == Phase::kEvicting;
  for (const auto& key : holds_of(before.spec.uid, before.attempt)) {
    if (started && before.external_scheduler) {
      const auto& terms = tables_.budgets.find(key.budget)->terms;
      const auto spent = cost_of(terms, before, before.flavors, before.counts, now_ - before.admitted);
      edit_hold(key, [&](forecast::Budget& account, Hold& hold) { (void)account.settle(hold, spent, now_); });
    }
    if (!started || before.external_scheduler) {
      drop_hold(key);
    } else {
      edit_hold(key, [](forecast::Budget&, Hold& hold) { hold.until = Instant{}; });
    }
  }
}

/// Extends the holds of workloads that run longer than expected, as far as amounts are free.
void Engine::extend_holds() {
  while (!indexes_.holds_due.empty() && indexes_.holds_due.begin()->first <= now_) {
    const HoldKey key = indexes_.holds_due.begin()->second;
    const Workload& w = *tables_.workloads.find(key.uid);
    const auto& terms = tables_.budgets.find(key.budget)->terms;
    const Instant planned =
        w.admitted == Instant{} ? now_ + expected_run(terms, w) : w.admitted + expected_run(terms, w);
    const Duration step = std::max(kShortestStep, terms.default_run);
    const auto more = cost_of(terms, w, w.flavors, w.counts, step);
    edit_hold(key, [&](forecast::Budget& account, Hold& hold) {
      if (planned > now_) {
        hold.until = planned;  // it started later than it got quota
        return;
      }
      (void)account.take(hold, more, now_);
      hold.until = now_ + step;
    });
  }
}

// ---- messages of cost ----

void Engine::on(const BudgetGranted& c) {
  const auto* known = tables_.budgets.find(c.budget);
  if (known != nullptr && c.sequence <= known->sequence) {
    ++counters_.stale;
    return;
  }
  const auto grant = [&](forecast::Budget account) -> std::optional<forecast::Budget> {
    account.forget_future(now_);
    for (const auto& [period, amount, carry] : c.allotments) {
      if (!account.grant(period, amount, carry, now_)) return std::nullopt;
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
  auto& row = tables_.budgets.edit(c.budget);
  const bool others = row.sequence == 0 || !(row.terms == c.terms);
  row = {c.terms, c.sequence, std::move(*account)};
  if (others) refresh_requests();
}

void Engine::forget_budget(const std::string& name) {
  std::vector<HoldKey> held;
  for (const auto& [key, hold] : tables_.holds) {
    if (key.budget == name) held.push_back(key);
  }
  for (const auto& key : held) drop_hold(key);
  std::vector<WorkloadUid> waiting;
  if (const auto lacks = indexes_.lacks.find(name); lacks != indexes_.lacks.end()) {
    for (const auto& [ask, uid] : lacks->second) waiting.push_back(uid);
  }
  tables_.budgets.erase(name);
  refresh_requests();
  for (const auto& uid : waiting) wait_for_budget(uid, {});
}

/// Terms changed, so all pending workloads request other amounts.
void Engine::refresh_requests() {
  for (const auto& [uid, w] : tables_.workloads) {
    if (w.phase != Phase::kPending) continue;
    const Marks marks = marks_of(w);
    move(indexes_, w, marks, marks);
  }
}

void Engine::on(const SpendingUpdated& c) {
  for (const auto& key : holds_of(c.uid, c.attempt)) {
    const auto spent = tables_.budgets.find(key.budget)->terms.dollars ? c.nano_usd : (c.gpu_micros + 999) / 1000;
    if (!c.forgotten)
      edit_hold(key, [&](forecast::Budget& account, Hold& hold) {
        const auto settled = account.settle(hold, std::max<std::int64_t>(0, spent), now_);
        QM_ASSERT(settled, "budget {}: {}", key.budget, settled.error().message);
      });
    if (c.final) drop_hold(key);
  }
}

// ---- explanations ----

void Engine::explain_budget(const Workload& w, Instant now, std::vector<Cause>& causes) const {
  const auto* row = w.budget.empty() ? nullptr : tables_.budgets.find(w.budget);
  if (row == nullptr) return;
  auto account = row->account;
  const auto asks = budget_requests_of(w);
  Cause c;
  c.code = "BudgetExhausted";
  c.resource = row->terms.dollars ? "nano-usd" : "gpu-milliseconds";
  c.requested = asks.contains(w.budget) ? asks.at(w.budget) : 0;
  c.available = account.free(now);
  const auto* current = account.at(now);
  const auto& all = account.allotments();
  const auto next = all.upper_bound(now);
  c.message = fmt::format("budget {} has {} free{}, {} are requested; {}", w.budget,
                          show_budget(row->terms.dollars, c.available),
                          current == nullptr ? std::string(" as no period is granted")
                                             : fmt::format(" of {}", show_budget(row->terms.dollars, current->granted)),
                          show_budget(row->terms.dollars, c.requested),
                          next == all.end() ? std::string("no further period is granted yet")
                                            : fmt::format("the next period begins at {}", to_rfc3339(next->first)));
  c.remedy =
      "wait until running workloads release unspent holds, or for the next period; raise the amount of the Budget, or "
      "declare a shorter run time";
  causes.push_back(std::move(c));
}

void Engine::check_budgets() const {
  std::map<std::string, std::map<Instant, std::int64_t>> held;
  for (const auto& [key, hold] : tables_.holds) {
    QM_ASSERT(tables_.budgets.contains(key.budget), "{}/{} holds of budget {}, which does not exist", key.uid,
              key.attempt, key.budget);
    for (const auto& [from, amount] : hold.left) held[key.budget][from] += amount;
    const auto* w = tables_.workloads.find(key.uid);
    const bool holds = w != nullptr && w->attempt == key.attempt && w->holds_quota();
    QM_ASSERT((hold.until != Instant{}) == holds,
              "{}/{} is over and its hold of budget {} grows, or the other way round", key.uid, key.attempt,
              key.budget);
  }
  for (const auto& [name, row] : tables_.budgets) {
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

}  // namespace qm::admission
