#include "qm/cost/prices.hpp"

#include <utility>

namespace qm::cost {
namespace {

bool fits(std::string_view pattern, std::string_view value) { return pattern.empty() || pattern == value; }

int specificity(const PriceEntry& entry) {
  return (entry.instance_type.empty() ? 0 : 4) + (entry.capacity_type.empty() ? 0 : 2) + (entry.zone.empty() ? 0 : 1);
}

}  // namespace

const PriceEntry* best_entry(const PricePlan& plan, std::string_view instance_type, std::string_view capacity_type,
                             std::string_view zone) {
  const PriceEntry* best = nullptr;
  for (const auto& entry : plan.entries) {
    if (!fits(entry.instance_type, instance_type) || !fits(entry.capacity_type, capacity_type) ||
        !fits(entry.zone, zone)) {
      continue;
    }
    const int rank = specificity(entry);
    if (best == nullptr || rank > specificity(*best) || (rank == specificity(*best) && entry < *best)) best = &entry;
  }
  return best;
}

std::optional<HourlyRate> planned_rate(const PricePlan& plan, std::string_view instance_type,
                                       std::string_view capacity_type, std::string_view zone) {
  const auto* entry = best_entry(plan, instance_type, capacity_type, zone);
  if (entry == nullptr && capacity_type != kOnDemand) entry = best_entry(plan, instance_type, kOnDemand, zone);
  if (entry == nullptr) return std::nullopt;
  return entry->rate;
}

}  // namespace qm::cost
