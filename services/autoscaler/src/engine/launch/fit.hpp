#pragma once
#include "qm/autoscaler/engine.hpp"

#include <map>
#include <string>
#include <vector>

namespace qm::autoscaler {

inline constexpr std::int64_t kPodsPerNode = 110;  ///< the kubelet's default

[[nodiscard]] inline bool is_launching(const Claim& c) {
  return c.state == ClaimState::kRequested || c.state == ClaimState::kLaunched;
}

/// Whether the pod would fit a node that the pool launches with this offering.
[[nodiscard]] bool accepts(const PodShape& shape, const Pool& pool, const Labels& labels, const InstanceType& type,
                           const std::string& zone, Market market);

/// The free capacity of one instance.
struct FreeCapacity {
  std::int64_t gpus = 0, cpu_milli = 0, memory_bytes = 0, pods = kPodsPerNode;

  explicit FreeCapacity(const InstanceType& t) : gpus(t.gpus), cpu_milli(t.cpu_milli), memory_bytes(t.memory_bytes) {}
  /// Reserves up to `want` such pods and returns their number. The rest of a shared device is not used for other
  /// shapes.
  std::int64_t take(const PodShape& shape, std::int64_t want);
};
using CapacityByClaim = std::map<ClaimName, FreeCapacity>;

/// The placement of a gang on instances: the ones it uses, their remaining capacity, and the pods that did not fit.
struct Fit {
  std::vector<PodSet> rest;  ///< every set, with the pods that did not fit
  std::vector<Plan::Place> places;
  CapacityByClaim capacities;

  Fit(const Tables& tables, const std::map<std::string, InstanceType>& catalog, const std::vector<PodSet>& sets,
      CapacityByClaim from);
  [[nodiscard]] bool whole() const;
  /// Writes the pods' places to the plan, and the remaining capacity to `others`.
  void settle(Plan& plan, CapacityByClaim& others) const;
};

}  // namespace qm::autoscaler
