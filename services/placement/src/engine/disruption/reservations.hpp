#pragma once
#include "engine/gangs/attempts.hpp"
#include "engine/nodes/capacities.hpp"
#include "engine/rows.hpp"
#include "engine/state.hpp"

#include <set>
#include <utility>
#include <vector>

namespace qm::placement {

/// Applies and restores held capacity for the decision of one workload.
class Reservations {
 public:
  Reservations(State& state, const Attempts& attempts, const Capacities& capacities, Rows& rows)
      : tables_(state.tables), index_(state.index), attempts_(attempts), capacities_(capacities), rows_(rows) {}

  /// Held capacity and kept nodes that the workload may use: its own, and those of workloads with lower priority.
  [[nodiscard]] std::pair<HypotheticalState, std::set<NodeName>> holds_available_to(const WorkloadUid& uid,
                                                                                    bool defrag) const;
  /// Releases the workload's own holds and those of lower priority for this decision. Returns the nodes with
  /// changed free capacity.
  [[nodiscard]] std::vector<NodeName> release_holds(const WorkloadUid& uid, bool defrag = false);
  /// Reverts release_holds().
  void restore_holds(const std::vector<NodeName>& nodes);

 private:
  Tables& tables_;
  Index& index_;
  const Attempts& attempts_;
  const Capacities& capacities_;
  Rows& rows_;
};

}  // namespace qm::placement
