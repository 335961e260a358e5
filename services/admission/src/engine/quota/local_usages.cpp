#include "quota/local_usages.hpp"

#include <cmath>

namespace qm::admission {
namespace {

/// The last instant of the sampling grid; late samplings count as of their grid instant.
Instant grid(Instant now, Duration sampling) { return from_micros(micros(now) / sampling.count() * sampling.count()); }

std::int64_t rounded(double amount) { return static_cast<std::int64_t>(std::llround(amount)); }

/// The fraction that is replaced after this time.
double update_weight(const UsageMemory& memory, Duration passed) {
  return 1 - std::pow(0.5, static_cast<double>(passed.count()) / static_cast<double>(memory.half_life.count()));
}
/// Its cluster queue, and its weight. A cluster queue that is named directly counts as a local queue.
std::pair<QueueName, std::int64_t> weight_of(const Tables& tables, const LocalName& local) {
  const auto* row = tables.local_queues.find(local);
  if (row != nullptr) return {row->cluster_queue, row->weight_milli};
  return {QueueName(local.second), 1000};
}

}  // namespace

LocalUsage usage_now(const EngineState& state, const LocalName& local) {
  const auto& memory = state.options.rules.usage;
  const Instant at = grid(state.now, memory.sampling);
  const auto* row = state.tables.local_usage.find(local);
  if (row == nullptr) return {{}, {}, at};
  LocalUsage out = *row;
  if (at <= out.sampled) return out;
  const double share = update_weight(memory, at - out.sampled);
  for (auto& [resource, amount] : out.consumed) amount = rounded((1 - share) * static_cast<double>(amount));
  if (const auto held = state.indexes.held_by_local.find(local); held != state.indexes.held_by_local.end()) {
    for (const auto& [resource, amount] : held->second) {
      out.consumed[resource] += rounded(share * static_cast<double>(amount));
    }
  }
  std::erase_if(out.consumed, [](const auto& one) { return one.second == 0; });
  out.entered.clear();
  out.sampled = at;
  return out;
}

double used_by(const EngineState& state, const LocalName& local) {
  return state.indexes.decisions.weigh(usage_now(state, local), weight_of(state.tables, local).second);
}
void LocalUsages::keep_rows() {
  std::vector<LocalName> gone;
  for (const auto& [local, row] : state_.tables.local_usage) {
    if (!state_.indexes.decisions.by_usage(weight_of(state_.tables, local).first)) gone.push_back(local);
  }
  for (const auto& local : gone) state_.tables.local_usage.erase(local);
  for (const auto& [local, held] : state_.indexes.held_by_local) sample(local);
}

void LocalUsages::sample(const LocalName& local) {
  const auto* row = state_.tables.local_usage.find(local);
  auto now = usage_now(state_, local);
  if (row == nullptr || !(now == *row)) state_.tables.local_usage.edit(local) = std::move(now);
}

void LocalUsages::enter(const Workload& w) {
  if (!state_.indexes.decisions.by_usage(w.cluster_queue)) return;
  const double share = update_weight(state_.options.rules.usage, state_.options.rules.usage.sampling);
  auto& entered = state_.tables.local_usage.edit(state_.indexes.decisions.local_of(w)).entered;
  for (const auto& [at, amount] : w.usage) entered[at.resource] += rounded(share * static_cast<double>(amount));
}

void LocalUsages::pass_to(int tree) {
  if (!state_.indexes.decisions.any_by_usage() && state_.tables.local_usage.size() == 0) return;
  std::vector<LocalName> spent;
  for (const auto& [local, row] : state_.tables.local_usage) {
    const auto [queue, weight] = weight_of(state_.tables, local);
    if (state_.indexes.decisions.tree_of(queue) != tree) continue;
    const auto now = usage_now(state_, local);
    if (now.consumed.empty() && now.entered.empty() && !state_.indexes.held_by_local.contains(local))
      spent.push_back(local);
    state_.indexes.decisions.put_usage(queue, local, now, weight);
  }
  for (const auto& local : spent) state_.tables.local_usage.erase(local);
  // Local queues without usage may still have a weight.
  for (const auto& [local, row] : state_.tables.local_queues) {
    if (row.weight_milli == 1000 || state_.tables.local_usage.contains(local)) continue;
    if (!state_.indexes.decisions.by_usage(row.cluster_queue)) continue;
    if (state_.indexes.decisions.tree_of(row.cluster_queue) == tree) {
      state_.indexes.decisions.put_usage(row.cluster_queue, local, {}, row.weight_milli);
    }
  }
}

}  // namespace qm::admission
