#pragma once
#include "launch/pod_needs.hpp"
#include "qm/autoscaler/engine.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace qm::autoscaler {

class NewNodes;

[[nodiscard]] inline bool is_launching(const Claim& c) {
  return c.state == ClaimState::kRequested || c.state == ClaimState::kLaunched;
}

/// The free capacity of one instance.
struct FreeCapacity {
  std::int64_t gpus = 0, cpu_milli = 0, memory_bytes = 0, pods = 0;
  std::map<std::string, std::int64_t> extended;
  std::vector<const PodNeeds*> placed;  ///< of the pods on it

  explicit FreeCapacity(const InstanceType& t)
      : gpus(t.gpus), cpu_milli(t.cpu_milli), memory_bytes(t.memory_bytes), pods(t.pods), extended(t.extended) {}
  /// Reserves up to `want` such pods and returns their number. The rest of a shared device is not used for other
  /// shapes.
  std::int64_t take(const PodShape& shape, const PodNeeds& needs, std::int64_t want);
  /// Removes the requests of a pod that runs in any case; amounts may become negative, and nothing else fits then.
  void occupy(const PodShape& shape, const PodNeeds& needs);

 private:
  [[nodiscard]] std::int64_t fitting(const PodShape& shape, std::int64_t want) const;
  void remove(const PodShape& shape, std::int64_t pods_of_it);
};
using CapacityByClaim = std::map<ClaimName, FreeCapacity>;

/// The placement of a gang on instances: the ones it uses, their remaining capacity, and the pods that did not fit.
struct Fit {
  std::vector<PodSet> rest;  ///< every set, with the pods that did not fit
  std::vector<Plan::Place> places;
  CapacityByClaim capacities;

  Fit(const Tables& tables, const NewNodes& nodes, const std::vector<PodSet>& sets, CapacityByClaim from);
  [[nodiscard]] bool whole() const;
  /// Writes the pods' places to the plan, and the remaining capacity to `others`.
  void settle(Plan& plan, CapacityByClaim& others) const;
};

}  // namespace qm::autoscaler
