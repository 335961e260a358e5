#pragma once
#include "engine/gangs/attempts.hpp"
#include "engine/nodes/capacities.hpp"
#include "engine/rows.hpp"
#include "engine/state.hpp"

#include <optional>
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
  /// Priorities and kept nodes do not change until end_pass(): most workloads precede no holder of a kept node.
  void begin_pass();
  void end_pass() { lowest_holder_.reset(); }
  /// The same for nodes that are kept for the workload, alone.
  [[nodiscard]] std::vector<NodeName> release_kept(const WorkloadUid& uid);
  /// Reverts release_holds() and release_kept().
  void restore_holds(const std::vector<NodeName>& nodes);

 private:
  [[nodiscard]] std::vector<NodeName> kept_nodes_for(const WorkloadUid& uid) const;

  Tables& tables_;
  Index& index_;
  const Attempts& attempts_;
  const Capacities& capacities_;
  Rows& rows_;
  std::optional<std::int32_t> lowest_holder_;  ///< priority of a workload with a kept node; none = not known
};

}  // namespace qm::placement
