// Causes of pending workloads.
#include "qm/admission/queries/queues.hpp"
#include "queries/causes.hpp"
#include "quota/local_usages.hpp"
#include "state/budget_amounts.hpp"
#include "state/cause.hpp"

#include <algorithm>
#include <tuple>

namespace qm::admission {
namespace {

constexpr std::size_t kDeepest = 100;  ///< maximum number of reservations
constexpr int kTurnsLooked = 100;      ///< openings and closings that `why` searches ahead

std::optional<std::int64_t> nominal_of(const std::vector<ResourceGroup>& groups, const FlavorResource& at) {
  for (const auto& group : groups) {
    for (const auto& flavor : group.flavors) {
      if (flavor.flavor != at.flavor) continue;
      if (const auto quota = flavor.resources.find(at.resource); quota != flavor.resources.end()) {
        return quota->second.nominal;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

void explain_budget(const Tables& tables, const Workload& w, Instant now, std::vector<Cause>& causes) {
  const auto* row = w.budget.empty() ? nullptr : tables.budgets.find(w.budget);
  if (row == nullptr) return;
  auto account = row->account;
  const auto asks = budget_requests_of(tables, w);
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
void explain_backfill(const EngineState& state, const Workload& w, Instant now, std::vector<Cause>& causes) {
  const auto& queue = *state.tables.cluster_queues.find(w.cluster_queue);
  if (state.options.rules.kueue_cycles || queue.volcano) return;
  const Duration waited = std::max(Duration{0}, now - w.waits_since());
  const auto rank = [&](const Workload& one) {
    const auto& of = *state.tables.cluster_queues.find(one.cluster_queue);
    const Duration age = std::max(Duration{0}, now - one.waits_since());
    const auto priority = of.aging ? of.aging->priority(one.spec.priority, age) : one.spec.priority;
    return std::tuple(-std::int64_t{priority}, one.waits_since(), one.spec.uid);
  };
  if (queue.aging && queue.aging->overdue(waited)) {
    causes.push_back(
        cause_of("Overdue",
                 fmt::format("it has been pending for {} h, the bound of the queue: no workload submitted later to "
                             "ClusterQueue {} starts before it, whether or not it fits",
                             waited / std::chrono::hours(1), queue.name),
                 ""));
  } else if (queue.aging) {
    const auto counts = queue.aging->priority(w.spec.priority, waited);
    causes.push_back(
        cause_of("Aging",
                 fmt::format("by its age its effective priority is {} instead of {}; from {} on, no workload submitted "
                             "later to ClusterQueue {} starts before it",
                             counts, w.spec.priority, to_rfc3339(w.waits_since() + queue.aging->bound), queue.name),
                 ""));
  }
  if (!queue.backfill || !w.ready()) return;
  // In the order of the scheduler: the heads of the other queues, then its own queue.
  std::vector<const Workload*> in_order, own;
  const auto ready = [&](const QueueName& name, std::vector<const Workload*>& out) {
    const auto line = state.indexes.waiting.find(name);
    if (line == state.indexes.waiting.end()) return;
    line->second.all.each([&](const QueueOrder& order) {
      const auto* one = state.tables.workloads.find(order.uid);
      if (one->ready()) out.push_back(one);
    });
    std::ranges::sort(out, {}, [&](const Workload* one) { return rank(*one); });
  };
  for (const auto& name : queues_of_tree(state, queue.name)) {
    const auto& other = *state.tables.cluster_queues.find(name);
    if (name == queue.name || (!other.backfill && other.strategy != Strategy::kStrictFifo)) continue;
    std::vector<const Workload*> line;
    ready(name, line);
    if (!line.empty()) in_order.push_back(line.front());
  }
  ready(queue.name, own);
  std::size_t before = 0;
  while (before < own.size() && own[before] != &w) ++before;
  if (before >= kDeepest) {
    causes.push_back(cause_of("NoReservedStart",
                              fmt::format("{} are ahead of it in ClusterQueue {}, and starts are reserved for {}",
                                          before, queue.name, kDeepest),
                              ""));
    return;
  }
  own.resize(before + 1);
  in_order.insert(in_order.end(), own.begin(), own.end());
  const auto start = state.indexes.decisions.reserved(in_order, now).back();
  causes.push_back(
      start
          ? cause_of("ReservedStart",
                     fmt::format(
                         "a start is reserved for it at {}, by the run times of earlier workloads; in ClusterQueue {} "
                         "no workload starts before it that would delay this start",
                         to_rfc3339(*start), queue.name),
                     w.planned > Duration{0}
                         ? ""
                         : "declare its run time (quartermaster.dev/expected-runtime): then it can be backfilled")
          : cause_of(
                "NoReservedStart",
                fmt::format("no start within a week can be reserved for it in ClusterQueue {}: the run times of others "
                            "are unknown or longer",
                            queue.name),
                "declare the run times of workloads (quartermaster.dev/expected-runtime), or wait"));
}

std::optional<Cause> pending_preemption(const EngineState& state, const Workload& w) {
  std::string names;
  for (const auto& uid : state.indexes.decisions.awaited(w)) {
    const auto* leaving = state.tables.workloads.find(uid);
    if (leaving == nullptr || leaving->phase != Phase::kEvicting) continue;
    names += fmt::format("{}{}/{}", names.empty() ? "" : ", ", leaving->spec.ns, leaving->spec.name);
  }
  if (names.empty()) return std::nullopt;
  return cause_of("WaitingForPreemptedWorkloads",
                  fmt::format("preemption is in progress: the pods of {} must terminate first", names));
}

std::optional<Cause> usage_obstacle(const EngineState& state, const Workload& w) {
  const auto waiting = state.indexes.waiting.find(w.cluster_queue);
  if (!state.indexes.decisions.by_usage(w.cluster_queue) || waiting == state.indexes.waiting.end()) return std::nullopt;
  const auto own = state.indexes.decisions.local_of(w);
  const double used = used_by(state, own);
  std::set<LocalName> before;
  waiting->second.all.each([&](const QueueOrder& order) {
    auto other = state.indexes.decisions.local_of(state.workload(order.uid));
    if (!before.contains(other) && used_by(state, other) < used) before.insert(std::move(other));
  });
  if (before.empty()) return std::nullopt;
  Cause out;
  out.code = "MoreRecentUsage";
  out.message = fmt::format(
      "ClusterQueue {} orders by usage, and {} of its LocalQueues with pending workloads used less "
      "recently than {}/{}",
      w.cluster_queue, before.size(), own.first, own.second);
  out.remedy = "wait, or raise fairSharing.weight of the LocalQueue";
  return out;
}
std::optional<Cause> window_ahead(const ClusterQueue& queue, const std::vector<QuotaShortfall>& shortfalls,
                                  Instant now) {
  const auto groups = groups_at(queue, now);
  auto turn = quota_changes_after(queue, now);
  for (int looked = 0; turn && looked < kTurnsLooked; ++looked, turn = quota_changes_after(queue, *turn)) {
    const auto then = groups_at(queue, *turn);
    for (const auto& shortfall : shortfalls) {
      using Kind = QuotaShortfall::Kind;
      if (shortfall.kind != Kind::kQuota && shortfall.kind != Kind::kNeverFits &&
          shortfall.kind != Kind::kBorrowingLimit) {
        continue;
      }
      const FlavorResource at{shortfall.flavor, shortfall.resource};
      const auto before = nominal_of(groups, at), after = nominal_of(then, at);
      if (!before || !after || *after <= *before) continue;
      Cause out;
      out.code = "QuotaWindow";
      out.resource = at.resource;
      out.requested = shortfall.requested;
      out.available = *after;
      out.message = fmt::format("ClusterQueue {} has {} of {} in flavor {} from {} on, and {} until then", queue.name,
                                show_amount(at.resource, *after), at.resource, at.flavor, to_rfc3339(*turn),
                                show_amount(at.resource, *before));
      out.remedy = "wait until then, or have the window begin earlier (quartermaster.dev/quota-windows)";
      return out;
    }
  }
  return std::nullopt;
}

}  // namespace qm::admission
