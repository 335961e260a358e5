// Copies a tree and its workloads for simulated futures and reserved starts.
#include "qm/admission/forecast/eta.hpp"
#include "qm/admission/forecast/reservations.hpp"
#include "scheduler/decisions.hpp"

#include <utility>

namespace qm::admission {

std::optional<kueue::QuotaState> Decisions::stage(const QueueName& queue) const {
  const int tree = tree_of(queue);
  if (tree < 0 || pooled(queue)) return std::nullopt;
  return forecast::emptied(scheduler(tree).quota());
}

std::optional<ForecastWorkload> Decisions::figure(const Workload& w, int id) const {
  auto as_seen = seen(w);
  if (!as_seen) return std::nullopt;
  const int tree = tree_of(w.cluster_queue);
  ForecastWorkload out{std::move(as_seen->second), {}};
  out.work.id = id;
  if (w.holds_quota()) {
    out.work.usage = names_.amounts_of(tree, w.usage);
    out.work.reserved = micros(w.quota_reserved);
    out.work.evicted = w.phase == Phase::kEvicting;
    out.work.stake = stake_of(w);
  }
  if (w.claim) out.claimed = names_.amounts_of(tree, w.claim->usage);
  return out;
}

std::vector<std::optional<Instant>> Decisions::reserved(const std::vector<const Workload*>& in_order,
                                                        Instant now) const {
  std::vector<std::optional<Instant>> out;
  forecast::Reservations plan;
  bool begun = false, whole = true;
  for (const auto* w : in_order) {
    out.emplace_back();
    const auto as_seen = seen(*w);
    if (!as_seen || !whole) continue;
    auto& [field, work] = *as_seen;
    if (!begun) {
      const auto then = std::exchange(field->now, micros(now));
      plan.begin(*field);
      field->now = then;
      begun = true;
    }
    whole = plan.reserve(work);
    if (whole) out.back() = plan.last();
  }
  return out;
}

}  // namespace qm::admission
