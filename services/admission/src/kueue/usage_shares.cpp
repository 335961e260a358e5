#include "qm/admission/kueue/usage_shares.hpp"

#include <cmath>
#include <limits>

namespace qm::admission::kueue {

double UsageShares::share_of(double passed) const {
  return settings_.half_life <= 0 ? 0 : 1 - std::pow(0.5, passed / settings_.half_life);
}

void UsageShares::penalize(int local_queue, const Totals& requests, int times) {
  auto& queue = queues_[local_queue];
  const double share = times * share_of(settings_.sampling);
  for (const auto& [resource, amount] : requests) queue.penalty[resource] += share * amount;
}

void UsageShares::sample(int local_queue, const Totals& held, double passed) {
  auto& queue = queues_[local_queue];
  const double share = share_of(passed);
  Totals next;
  if (settings_.half_life > 0) {
    for (const auto& [resource, amount] : queue.consumed) next[resource] += (1 - share) * amount;
    for (const auto& [resource, amount] : held) next[resource] += share * amount;
  }
  queue.consumed = std::move(next);
  queue.penalty.clear();
}

double UsageShares::of(int local_queue) const {
  const auto found = queues_.find(local_queue);
  if (found == queues_.end()) return 0;
  const auto& queue = found->second;
  if (queue.weight <= 0) return std::numeric_limits<double>::infinity();
  const auto sum = [&](const Totals& totals) {
    double out = 0;
    for (const auto& [resource, amount] : totals) {
      const auto weight = settings_.weights.find(resource);
      out += amount * (weight == settings_.weights.end() ? 1 : weight->second);
    }
    return out;
  };
  return (sum(queue.consumed) + sum(queue.penalty)) / queue.weight;
}

}  // namespace qm::admission::kueue
