#pragma once
#include "engine/allocator/allocator.hpp"
#include "engine/allocator/recovery_places.hpp"
#include "engine/nodes/capacities.hpp"
#include "engine/rows.hpp"
#include "engine/state.hpp"

#include <vector>

namespace qm::placement {

/// A gang that lost a node or a GPU keeps its other nodes for its next attempt, and pods go there by their ranks. Only
/// the pods of the lost node get new nodes, as near to the others as possible.
class GangRecovery {
 public:
  GangRecovery(State& state, const Capacities& capacities, Rows& rows, const Allocator& allocator)
      : options_(state.options),
        tables_(state.tables),
        index_(state.index),
        scratch_(state.scratch),
        capacities_(capacities),
        rows_(rows),
        allocator_(allocator) {}

  /// Called when an attempt must end. If some of its nodes have failed or are failing, its capacity on the
  /// others is held.
  void hold_for_recovery(const AttemptId& id, const Assignment& row);
  /// The pods that need new nodes: of a recovering gang, those without a held placement.
  [[nodiscard]] std::vector<PodSet> missing_of(const WorkloadUid& uid) const;
  /// Tries the levels from the narrowest part that held the gang to the widest that it requires, each without
  /// and then with spare nodes.
  PlacementResult place_recovery(const WorkloadUid& uid, const PlacementRequest& request);

 private:
  const Options& options_;
  Tables& tables_;
  Index& index_;
  Scratch& scratch_;
  const Capacities& capacities_;
  Rows& rows_;
  const Allocator& allocator_;
};

}  // namespace qm::placement
