#pragma once
#include "engine/allocator/allocator.hpp"
#include "engine/disruption/proposals.hpp"
#include "engine/disruption/victims.hpp"
#include "engine/gangs/pods.hpp"
#include "engine/nodes/capacities.hpp"
#include "engine/rows.hpp"
#include "engine/state.hpp"

#include <set>

namespace qm::placement {

/// Reclaims whole nodes by migrating work. The plan is a row: after a restart it continues, or ends, as without one.
class Defragmentation {
 public:
  Defragmentation(State& state, const Pods& pods, Rows& rows, const Allocator& allocator, Proposals& proposals,
                  const Victims& victims, const Capacities& capacities)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        index_(state.index),
        scratch_(state.scratch),
        pods_(pods),
        rows_(rows),
        allocator_(allocator),
        proposals_(proposals),
        victims_(victims),
        capacities_(capacities) {}

  /// Runs after all workloads were placed.
  void run();
  void advance_migration(const WorkloadUid& uid);
  [[nodiscard]] DefragInput input(const std::set<WorkloadUid>& migrating = {}) const;

 private:
  [[nodiscard]] bool is_valid(DefragStep& step) const;
  [[nodiscard]] bool next_migration();
  void plan();

  State& state_;
  const Options& options_;
  Tables& tables_;
  Index& index_;
  Scratch& scratch_;
  const Pods& pods_;
  Rows& rows_;
  const Allocator& allocator_;
  Proposals& proposals_;
  const Victims& victims_;
  const Capacities& capacities_;
};

}  // namespace qm::placement
