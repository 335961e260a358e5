#pragma once
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
  Reservations(State& state, const Capacities& capacities, Rows& rows)
      : tables_(state.tables), index_(state.index), capacities_(capacities), rows_(rows) {}

  /// Held capacity that the workload may use: its own, and that of workloads with lower priority.
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
  const Capacities& capacities_;
  Rows& rows_;
};

}  // namespace qm::placement
