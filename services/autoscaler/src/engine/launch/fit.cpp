// Which pods fit which instances.
#include "launch/fit.hpp"

#include "launch/new_nodes.hpp"

#include <algorithm>

namespace qm::autoscaler {

std::int64_t FreeCapacity::fitting(const PodShape& shape, std::int64_t want) const {
  std::int64_t n = std::min(want, pods);
  const std::int64_t sharing = shape.gpu.milli > 0 ? 1000 / shape.gpu.milli : 1;  // pods on one device
  if (shape.gpu.whole > 0) n = std::min(n, gpus / shape.gpu.whole);
  if (shape.gpu.milli > 0) n = std::min(n, gpus * sharing);
  if (shape.cpu_milli > 0) n = std::min(n, cpu_milli / shape.cpu_milli);
  if (shape.memory_bytes > 0) n = std::min(n, memory_bytes / shape.memory_bytes);
  for (const auto& [resource, amount] : shape.extended) {
    // The size of the root volume is the node class's.
    if (amount <= 0 || resource == "ephemeral-storage") continue;
    const auto free = extended.find(resource);
    n = free == extended.end() ? 0 : std::min(n, free->second / amount);
  }
  return n;
}

void FreeCapacity::remove(const PodShape& shape, std::int64_t n) {
  const std::int64_t sharing = shape.gpu.milli > 0 ? 1000 / shape.gpu.milli : 1;
  gpus -= shape.gpu.milli > 0 ? (n + sharing - 1) / sharing : n * shape.gpu.whole;
  cpu_milli -= n * shape.cpu_milli;
  memory_bytes -= n * shape.memory_bytes;
  for (const auto& [resource, amount] : shape.extended) extended[resource] -= n * amount;
  pods -= n;
}

std::int64_t FreeCapacity::take(const PodShape& shape, const PodNeeds& needs, std::int64_t want) {
  if (std::ranges::any_of(placed, [&](const PodNeeds* other) { return needs.excludes(*other); })) return 0;
  if (needs.excludes(needs)) want = std::min<std::int64_t>(want, 1);
  const std::int64_t n = fitting(shape, want);
  if (n <= 0) return 0;
  remove(shape, n);
  if (std::ranges::find(placed, &needs) == placed.end()) placed.push_back(&needs);
  return n;
}

void FreeCapacity::occupy(const PodShape& shape, const PodNeeds& needs) {
  remove(shape, 1);
  placed.push_back(&needs);
}

Fit::Fit(const Tables& tables, const NewNodes& nodes, const std::vector<PodSet>& sets, CapacityByClaim from)
    : capacities(std::move(from)) {
  for (const PodSet& set : sets) {
    std::int32_t& pods = rest.emplace_back(set).count;
    for (auto& [name, capacity] : capacities) {
      if (pods == 0) break;
      if (!nodes.accepts(set, nodes.side_of(*tables.claims.find(name)))) continue;
      const auto n = static_cast<std::int32_t>(capacity.take(set.shape, nodes.needs(set), pods));
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
