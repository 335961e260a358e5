#pragma once
#include "engine/allocator/allocator.hpp"
#include "engine/disruption/gang_recovery.hpp"
#include "engine/gangs/elastic_gangs.hpp"
#include "engine/state.hpp"

#include <vector>

namespace qm::placement {

/// Pods that need nodes which do not exist yet: input of the autoscaler.
class DemandList {
 public:
  DemandList(const State& state, const Allocator& allocator, const GangRecovery& recovery, const ElasticGangs& elastic)
      : tables_(state.tables), index_(state.index), allocator_(allocator), recovery_(recovery), elastic_(elastic) {}

  /// False while a preemption or a MIG repartition for the short workload is in progress.
  [[nodiscard]] bool requests_nodes(const WorkloadUid& uid) const;
  /// Its number of items, without making them.
  [[nodiscard]] std::size_t demand_size() const;
  /// Pods that need nodes, by workload.
  [[nodiscard]] std::vector<DemandItem> demand() const;

 private:
  /// Sets the pods of pending gangs that fit running nodes, by priority, each after the pods of those before it.
  void find_room(std::vector<DemandItem>& items) const;
  void find_room(DemandItem& item, FreeCapacity& free_capacity, const Preference& preference) const;

  const Tables& tables_;
  const Index& index_;
  const Allocator& allocator_;
  const GangRecovery& recovery_;
  const ElasticGangs& elastic_;
};

}  // namespace qm::placement
