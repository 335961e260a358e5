// Which pods fit which instances.
#include "launch/fit.hpp"

#include <algorithm>

namespace qm::autoscaler {

bool accepts(const PodShape& shape, const Pool& pool, const Labels& labels, const InstanceType& type,
             const std::string& zone, Market market) {
  if (shape.gpu.mig_count > 0) return false;  // a new instance has whole devices
  if (untolerated(pool.taints, shape.tolerations) != nullptr) return false;
  if (!shape.gpu.models.empty() &&
      !std::ranges::any_of(shape.gpu.models, [&](const auto& model) { return model == type.gpu_product; }))
    return false;
  for (const auto& [key, value] : shape.node_selector) {
    if (key == words::kInstanceType) {
      if (value != type.name) return false;
    } else if (key == words::kGpuProduct) {
      if (value != type.gpu_product) return false;
    } else if (key == words::kNodePool) {
      if (value != pool.name) return false;
    } else if (key == words::kZone) {
      if (value != zone) return false;
    } else if (key == words::kCapacityType) {
      if (value != name_of(market)) return false;
    } else {
      const auto own = labels.find(key), of_pool = pool.labels.find(key);
      const bool here =
          own != labels.end() ? own->second == value : of_pool != pool.labels.end() && of_pool->second == value;
      if (!here) return false;
    }
  }
  return true;
}

std::int64_t FreeCapacity::take(const PodShape& shape, std::int64_t want) {
  std::int64_t n = std::min(want, pods);
  const std::int64_t sharing = shape.gpu.milli > 0 ? 1000 / shape.gpu.milli : 1;  // pods on one device
  if (shape.gpu.whole > 0) n = std::min(n, gpus / shape.gpu.whole);
  if (shape.gpu.milli > 0) n = std::min(n, gpus * sharing);
  if (shape.cpu_milli > 0) n = std::min(n, cpu_milli / shape.cpu_milli);
  if (shape.memory_bytes > 0) n = std::min(n, memory_bytes / shape.memory_bytes);
  if (n <= 0) return 0;
  gpus -= shape.gpu.milli > 0 ? (n + sharing - 1) / sharing : n * shape.gpu.whole;
  cpu_milli -= n * shape.cpu_milli;
  memory_bytes -= n * shape.memory_bytes;
  pods -= n;
  return n;
}

Fit::Fit(const Tables& tables, const std::map<std::string, InstanceType>& catalog, const std::vector<PodSet>& sets,
         CapacityByClaim from)
    : capacities(std::move(from)) {
  for (const PodSet& set : sets) {
    std::int32_t& pods = rest.emplace_back(set).count;
    for (auto& [name, capacity] : capacities) {
      if (pods == 0) break;
      const Claim& c = *tables.claims.find(name);
      if (!accepts(set.shape, *tables.pools.find(c.pool), c.labels, catalog.at(c.type), c.zone, c.market)) continue;
      const auto n = static_cast<std::int32_t>(capacity.take(set.shape, pods));
      if (n > 0) places.push_back({name, static_cast<std::int32_t>(rest.size()) - 1, n});
      pods -= n;
    }
  }
}

bool Fit::whole() const {
  return std::all_of(rest.begin(), rest.end(), [](const PodSet& set) { return set.count == 0; });
}

void Fit::settle(Plan& plan, CapacityByClaim& others) const {
  for (const auto& place : places) {
    if (!(std::ranges::find(plan.claims, place.claim) != plan.claims.end())) plan.claims.push_back(place.claim);
    others.insert_or_assign(place.claim, capacities.at(place.claim));
    plan.places.push_back(place);
  }
}

}  // namespace qm::autoscaler
