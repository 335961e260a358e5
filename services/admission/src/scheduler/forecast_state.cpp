// Copies a tree and its workloads for simulated futures.
#include "qm/admission/decisions.hpp"
#include "qm/admission/forecast/eta.hpp"
#include "scheduler/rule_tree.hpp"

namespace qm::admission {

std::optional<kueue::QuotaState> Decisions::stage(const QueueName& queue) const {
  const int tree = tree_of(queue);
  if (tree < 0 || pooled(queue)) return std::nullopt;
  return forecast::emptied(trees_[static_cast<std::size_t>(tree)]->field());
}

std::optional<Decisions::ForecastWorkload> Decisions::figure(const Workload& w, int id) const {
  auto as_seen = seen(w);
  if (!as_seen) return std::nullopt;
  const int tree = tree_of(w.cluster_queue);
  ForecastWorkload out{std::move(as_seen->second), {}};
  out.work.id = id;
  if (w.holds_quota()) {
    out.work.usage = amounts_of(tree, w.usage);
    out.work.reserved = micros(w.quota_reserved);
    out.work.evicted = w.phase == Phase::kEvicting;
    out.work.stake = stake_of(w);
  }
  if (w.claim) out.claimed = amounts_of(tree, w.claim->usage);
  return out;
}

}  // namespace qm::admission
