#include "state/budget_amounts.hpp"

#include "qm/admission/queries/budget_view.hpp"
#include "state/engine_state.hpp"

#include <algorithm>
#include <limits>

namespace qm::admission {
namespace {

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
bool pays_for(const BudgetTerms& terms, const Workload& w) {
  if (!terms.cluster_queue.empty()) return terms.cluster_queue == w.cluster_queue;
  return terms.ns.empty() ? terms.team == w.spec.team : terms.ns == w.spec.ns;
}

Duration expected_run(const BudgetTerms& terms, const Workload& w) {
  if (w.spec.expected_runtime > Duration{0}) return std::min(kLongestRun, w.spec.expected_runtime);
  if (w.max_execution > Duration{0}) return std::clamp(w.max_execution - w.ran, Duration{0}, kLongestRun);
  return terms.default_run;
}
std::int64_t cost_of(const Tables& tables, const BudgetTerms& terms, const Workload& w, const Flavors& flavors,
                     const Counts& counts, Duration run) {
  std::int64_t sum = 0;
  const auto* queue = tables.cluster_queues.find(w.cluster_queue);
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
      const auto* flavor = tables.flavors.find(name);
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

std::map<std::string, std::int64_t> budget_requests_of(const Tables& tables, const Workload& w) {
  std::map<std::string, std::int64_t> out;
  for (const auto& [name, row] : tables.budgets) {
    if (row.terms.soft || !pays_for(row.terms, w)) continue;
    out[name] = cost_of(tables, row.terms, w, {}, {}, expected_run(row.terms, w));
  }
  return out;
}

std::map<std::string, std::int64_t> scale_up_costs(const Tables& tables, const Workload& w, bool hard_alone) {
  std::map<std::string, std::int64_t> out;
  for (const auto& [name, row] : tables.budgets) {
    if (!pays_for(row.terms, w) || (hard_alone && row.terms.soft)) continue;
    out[name] = cost_of(tables, row.terms, w, w.flavors, Counts{w.scale_up_to() - w.counted_pods()},
                        expected_run(row.terms, w));
  }
  return out;
}
std::int64_t free_of(const BudgetRow& row, Instant now) {
  auto probe = row.account;
  return probe.free(now);
}
std::string lacking(const EngineState& state, const std::map<std::string, std::int64_t>& asks) {
  for (const auto& [name, amount] : asks) {
    if (amount > free_of(*state.tables.budgets.find(name), state.now)) return name;
  }
  return {};
}

std::optional<Instant> next_period(const EngineState& state, const std::string& budget) {
  const auto& row = *state.tables.budgets.find(budget);
  for (const auto& [from, one] : row.account.allotments()) {
    if (from > state.now) return from;
  }
  return std::nullopt;
}

}  // namespace qm::admission
