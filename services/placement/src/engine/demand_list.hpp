#pragma once
#include "engine/disruption/gang_recovery.hpp"
#include "engine/gangs/elastic_gangs.hpp"
#include "engine/state.hpp"

#include <vector>

namespace qm::placement {

/// Pods that need nodes which do not exist yet: input of the autoscaler.
class DemandList {
 public:
  DemandList(const State& state, const GangRecovery& recovery, const ElasticGangs& elastic)
      : tables_(state.tables), index_(state.index), recovery_(recovery), elastic_(elastic) {}

  /// False while a preemption or a MIG repartition for the short workload is in progress.
  [[nodiscard]] bool requests_nodes(const WorkloadUid& uid) const;
  /// Its number of items, without making them.
  [[nodiscard]] std::size_t demand_size() const;
  /// Pods that need nodes, by workload.
  [[nodiscard]] std::vector<DemandItem> demand() const;

 private:
  const Tables& tables_;
  const Index& index_;
  const GangRecovery& recovery_;
  const ElasticGangs& elastic_;
};

}  // namespace qm::placement
