#pragma once
#include "engine/disruption/defragmentation.hpp"
#include "engine/disruption/mig_preemption.hpp"
#include "engine/disruption/preemption.hpp"
#include "engine/disruption/proposals.hpp"
#include "engine/disruption/victims.hpp"
#include "engine/rows.hpp"
#include "engine/state.hpp"

#include <set>

namespace qm::placement {

/// Advances the active proposals of all kinds: preemption, migration, MIG preemption and gang recovery.
class DisruptionPlanner {
 public:
  DisruptionPlanner(State& state, Rows& rows, Proposals& proposals, const Victims& victims,
                    MigPreemption& mig_preemption, Preemption& preemption, Defragmentation& defragmentation)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        index_(state.index),
        scratch_(state.scratch),
        rows_(rows),
        proposals_(proposals),
        victims_(victims),
        mig_preemption_(mig_preemption),
        preemption_(preemption),
        defragmentation_(defragmentation) {}

  /// Ends proposals whose workload is not pending any more. Workloads with changes on held nodes are placed
  /// again.
  void recheck(const std::set<NodeName>& seen);
  /// Runs after all workloads were placed.
  void advance();

 private:
  State& state_;
  const Options& options_;
  Tables& tables_;
  Index& index_;
  Scratch& scratch_;
  Rows& rows_;
  Proposals& proposals_;
  const Victims& victims_;
  MigPreemption& mig_preemption_;
  Preemption& preemption_;
  Defragmentation& defragmentation_;
};

}  // namespace qm::placement
