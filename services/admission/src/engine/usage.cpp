// Past usage of local queues, so that the least used one goes first (admission fair sharing). A row has the state
// at the last sampling. The current value follows from the row, the clock, and what the queue held since then:
// before the held quota changes, the missing samplings are computed.
#include "rule_tree.hpp"
#include "update.hpp"

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

}  // namespace

// ---- in the trees ----

/// CPU and GPU are counted in thousandths, and weighed in whole units.
kueue::UsageShares Decisions::shares() const {
  kueue::UsageShares::Settings out;
  out.half_life = static_cast<double>(rules_.usage.half_life.count()) / 1e6;
  out.sampling = static_cast<double>(rules_.usage.sampling.count()) / 1e6;
  for (const std::string resource : {"cpu", "nvidia.com/gpu"}) {
    if (const auto id = resources_.find(resource)) out.weights[*id] = 0.001;
  }
  for (const auto& [resource, weight] : rules_.usage.weights) {
    if (const auto id = resources_.find(resource)) out.weights.try_emplace(*id, 1.0).first->second *= weight;
  }
  return kueue::UsageShares(std::move(out));
}

LocalName Decisions::local_of(const Workload& w) const {
  if (!w.spec.queue.empty()) return {w.spec.ns, w.spec.queue};
  const auto only = only_local_.find(w.spec.ns);
  return {w.spec.ns, only == only_local_.end() ? std::string() : only->second};
}

int Decisions::number(const LocalName& local) const {
  return local_queues_.of(fmt::format("{}/{}", local.first, local.second));
}

void Decisions::weigh(kueue::UsageShares& shares, int id, const LocalUsage& usage, std::int64_t weight_milli) const {
  const auto totals = [&](const std::map<std::string, std::int64_t>& amounts) {
    kueue::UsageShares::Totals out;
    for (const auto& [resource, amount] : amounts) out[resources_.of(resource)] = static_cast<double>(amount);
    return out;
  };
  shares.set_weight(id, static_cast<double>(weight_milli) / 1000);
  shares.set_consumed(id, totals(usage.consumed));
  shares.set_penalty(id, totals(usage.entered));
}

void Decisions::put_usage(const QueueName& queue, const LocalName& local, const LocalUsage& usage,
                          std::int64_t weight_milli) {
  const int tree = tree_of(queue);
  if (tree < 0) return;
  auto* shares = trees_[static_cast<std::size_t>(tree)]->usage();
  if (shares != nullptr) weigh(*shares, number(local), usage, weight_milli);
}

double Decisions::weigh(const LocalUsage& usage, std::int64_t weight_milli) const {
  auto one = shares();
  weigh(one, 0, usage, weight_milli);
  return one.of(0);
}

// ---- in the engine ----

/// Its cluster queue, and its weight. A cluster queue that is named directly counts as a local queue.
std::pair<QueueName, std::int64_t> Engine::weight_of(const LocalName& local) const {
  const auto* row = tables_.local_queues.find(local);
  if (row != nullptr) return {row->cluster_queue, row->weight_milli};
  return {QueueName(local.second), 1000};
}

/// Local queues that hold quota have a row; others keep theirs until no usage is left.
void Engine::keep_usage_rows() {
  std::vector<LocalName> gone;
  for (const auto& [local, row] : tables_.local_usage) {
    if (!indexes_.decisions.by_usage(weight_of(local).first)) gone.push_back(local);
  }
  for (const auto& local : gone) tables_.local_usage.erase(local);
  for (const auto& [local, held] : indexes_.held_by_local) sample_usage(local);
}

LocalUsage Engine::usage_now(const LocalName& local) const {
  const auto& memory = options_.rules.usage;
  const Instant at = grid(now_, memory.sampling);
  const auto* row = tables_.local_usage.find(local);
  if (row == nullptr) return {{}, {}, at};
  LocalUsage out = *row;
  if (at <= out.sampled) return out;
  const double share = update_weight(memory, at - out.sampled);
  for (auto& [resource, amount] : out.consumed) amount = rounded((1 - share) * static_cast<double>(amount));
  if (const auto held = indexes_.held_by_local.find(local); held != indexes_.held_by_local.end()) {
    for (const auto& [resource, amount] : held->second) {
      out.consumed[resource] += rounded(share * static_cast<double>(amount));
    }
  }
  std::erase_if(out.consumed, [](const auto& one) { return one.second == 0; });
  out.entered.clear();
  out.sampled = at;
  return out;
}

/// Call before the held quota of the local queue changes.
void Engine::sample_usage(const LocalName& local) {
  const auto* row = tables_.local_usage.find(local);
  auto now = usage_now(local);
  if (row == nullptr || !(now == *row)) tables_.local_usage.edit(local) = std::move(now);
}

/// Adds the entry penalty of a workload that got quota.
void Engine::enter_usage(const Workload& w) {
  if (!indexes_.decisions.by_usage(w.cluster_queue)) return;
  const double share = update_weight(options_.rules.usage, options_.rules.usage.sampling);
  auto& entered = tables_.local_usage.edit(indexes_.decisions.local_of(w)).entered;
  for (const auto& [at, amount] : w.usage) entered[at.resource] += rounded(share * static_cast<double>(amount));
}

void Engine::show_usage(int tree) {
  if (!indexes_.decisions.any_by_usage() && tables_.local_usage.size() == 0) return;
  std::vector<LocalName> spent;
  for (const auto& [local, row] : tables_.local_usage) {
    const auto [queue, weight] = weight_of(local);
    if (indexes_.decisions.tree_of(queue) != tree) continue;
    const auto now = usage_now(local);
    if (now.consumed.empty() && now.entered.empty() && !indexes_.held_by_local.contains(local)) spent.push_back(local);
    indexes_.decisions.put_usage(queue, local, now, weight);
  }
  for (const auto& local : spent) tables_.local_usage.erase(local);
  // Local queues without usage may still have a weight.
  for (const auto& [local, row] : tables_.local_queues) {
    if (row.weight_milli == 1000 || tables_.local_usage.contains(local)) continue;
    if (!indexes_.decisions.by_usage(row.cluster_queue)) continue;
    if (indexes_.decisions.tree_of(row.cluster_queue) == tree) {
      indexes_.decisions.put_usage(row.cluster_queue, local, {}, row.weight_milli);
    }
  }
}

double Engine::used_by(const LocalName& local) const {
  return indexes_.decisions.weigh(usage_now(local), weight_of(local).second);
}

/// The cause for a workload if local queues with less usage go first.
std::optional<Cause> Engine::usage_obstacle(const Workload& w) const {
  const auto waiting = indexes_.waiting.find(w.cluster_queue);
  if (!indexes_.decisions.by_usage(w.cluster_queue) || waiting == indexes_.waiting.end()) return std::nullopt;
  const auto own = indexes_.decisions.local_of(w);
  const double used = used_by(own);
  std::set<LocalName> before;
  waiting->second.all.each([&](const QueueOrder& order) {
    auto other = indexes_.decisions.local_of(*tables_.workloads.find(order.uid));
    if (!before.contains(other) && used_by(other) < used) before.insert(std::move(other));
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

}  // namespace qm::admission
