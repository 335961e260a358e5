// The demand list.
#include "engine/demand_list.hpp"

#include <algorithm>

namespace qm::placement {

bool DemandList::requests_nodes(const WorkloadUid& uid) const {
  const Proposal* proposal = tables_.proposals.find(uid);
  const bool preempts = proposal != nullptr && proposal->state == ProposalState::kAccepted;
  return !preempts && !index_.reservations.rows(HoldSource::kRepartition).contains(uid);
}

std::size_t DemandList::demand_size() const {
  const auto pending = std::ranges::count_if(index_.short_of, [this](const auto& uid) { return requests_nodes(uid); });
  return static_cast<std::size_t>(pending) + index_.unplaced.size();
}

std::vector<DemandItem> DemandList::demand() const {
  std::vector<DemandItem> items;
  for (const WorkloadUid& uid : index_.short_of) {
    if (!requests_nodes(uid)) continue;
    const Workload& workload = *tables_.workloads.find(uid);
    items.push_back({{uid, workload.attempt},
                     recovery_.missing_of(uid),
                     workload.spec.priority,
                     workload.short_since,
                     workload.spec.checkpoints});
  }
  for (const WorkloadUid& uid : index_.unplaced) {
    const Workload& workload = *tables_.workloads.find(uid);
    items.push_back({{uid, workload.attempt},
                     elastic_.unplaced_pods(uid),
                     workload.spec.priority,
                     workload.unplaced.since,
                     workload.spec.checkpoints,
                     true});
  }
  return items;
}

}  // namespace qm::placement
