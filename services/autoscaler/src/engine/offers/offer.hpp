#pragma once
#include "qm/autoscaler/engine.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace qm::autoscaler {

/// The part of the limits that a pool's instances use. Instances count with their capacity, as in Karpenter.
struct Usage {
  std::int64_t gpus = 0, cpu_milli = 0, memory_bytes = 0, instances = 0;
  std::map<std::string, std::int64_t> other;  ///< of further resources

  void add(const InstanceType& type, std::int64_t nodes);
  /// The resource that exceeds its limit; empty = all are within.
  [[nodiscard]] std::string beyond(const Pool& pool) const;
  /// Whether it is at most `other` in each resource that the pool limits.
  [[nodiscard]] bool within(const Usage& other, const Pool& pool) const;
  /// "NodePool p has the limit nvidia.com/gpu 16: 12 in use, 8 more needed", for the resource that exceeds its limit.
  [[nodiscard]] std::string limit_text(const Pool& pool, const Usage& in_use) const;
};

/// The offering, and what a wider refusal held with it: its type in all zones, its zone for all types, and its market.
[[nodiscard]] inline std::array<Offering, 4> held_with(const Offering& o) {
  constexpr const char* kAll = "*";
  return {o, Offering{o.type, kAll, o.market, o.group}, Offering{kAll, o.zone, o.market, o.group},
          Offering{kAll, kAll, o.market, o.group}};
}

/// The value of the capacity type's label on its node.
[[nodiscard]] inline std::string_view capacity_type_of(const Offering& o) {
  return o.reservation.empty() ? name_of(o.market) : "reserved";
}

/// Instances of one kind that can be requested from a pool.
struct Offer {
  const Pool* pool = nullptr;
  const InstanceType* type = nullptr;
  Offering offering;
  std::int64_t nodes = 0;
  Money per_hour;
  Labels labels;
  std::vector<LaunchOption> others = {};  ///< further offerings for the same number of nodes, the best first
  std::string remarks = {};  ///< for the reason of its claims, each after "; ": relaxed minValues, the expander
};

}  // namespace qm::autoscaler
