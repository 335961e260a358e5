// Past usage of local queues in the trees.
#include "scheduler/decisions.hpp"

namespace qm::admission {

/// CPU and GPU are counted in thousandths, and weighed in whole units.
kueue::UsageShares Decisions::shares() const {
  kueue::UsageShares::Settings out;
  out.half_life = static_cast<double>(rules_.usage.half_life.count()) / 1e6;
  out.sampling = static_cast<double>(rules_.usage.sampling.count()) / 1e6;
  for (const std::string resource : {"cpu", "nvidia.com/gpu"}) {
    if (const auto id = names_.resources.find(resource)) out.weights[*id] = 0.001;
  }
  for (const auto& [resource, weight] : rules_.usage.weights) {
    if (const auto id = names_.resources.find(resource)) out.weights.try_emplace(*id, 1.0).first->second *= weight;
  }
  return kueue::UsageShares(std::move(out));
}

LocalName Decisions::local_of(const Workload& w) const {
  if (!w.spec.queue.empty()) return {w.spec.ns, w.spec.queue};
  const auto only = only_local_.find(w.spec.ns);
  return {w.spec.ns, only == only_local_.end() ? std::string() : only->second};
}

void Decisions::weigh(kueue::UsageShares& shares, int id, const LocalUsage& usage, std::int64_t weight_milli) const {
  const auto totals = [&](const std::map<std::string, std::int64_t>& amounts) {
    kueue::UsageShares::Totals out;
    for (const auto& [resource, amount] : amounts) out[names_.resources.of(resource)] = static_cast<double>(amount);
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
  auto* shares = scheduler(tree).usage();
  if (shares != nullptr) weigh(*shares, names_.number(local), usage, weight_milli);
}

double Decisions::weigh(const LocalUsage& usage, std::int64_t weight_milli) const {
  auto one = shares();
  weigh(one, 0, usage, weight_milli);
  return one.of(0);
}

}  // namespace qm::admission
