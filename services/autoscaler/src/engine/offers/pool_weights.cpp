// The order of NodePools by weight, for the order of the demand.
#include "offers/offers.hpp"

#include <algorithm>

namespace qm::autoscaler {

std::map<WorkloadUid, std::int32_t> Offers::heaviest(const std::vector<const DemandUpdated::Item*>& items) const {
  std::map<WorkloadUid, std::int32_t> out;
  const auto pools = pools_in_order();
  if (pools.empty() || pools.front()->weight == pools.back()->weight) return out;
  const auto fits = [&](const Pool& pool, const std::vector<PodSet>& sets) {
    const auto labels = nodes_.chosen_labels(pool, sets);
    return labels && std::ranges::any_of(pool.instance_types, [&](const auto& name) {
             const InstanceType* type = facts_.type(name);
             return type != nullptr && std::ranges::any_of(offerings(pool, *type, sets), [&](const Offering& o) {
                      return price(*type, o, pool) && nodes_for(sets, pool, *labels, *type, o) > 0;
                    });
           });
  };
  std::map<std::vector<PodSet>, std::int32_t> known;  // many workloads have equal pods
  for (const auto* item : items) {
    const auto [at, fresh] = known.try_emplace(item->pod_sets, 0);
    if (fresh) {
      const auto first = std::ranges::find_if(pools, [&](const Pool* pool) { return fits(*pool, item->pod_sets); });
      if (first != pools.end()) at->second = (*first)->weight;
    }
    out.emplace(item->id.uid, at->second);
  }
  return out;
}

}  // namespace qm::autoscaler
