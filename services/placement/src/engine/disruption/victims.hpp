#pragma once
#include "engine/allocator/allocator.hpp"
#include "engine/mig/mig_layouts.hpp"
#include "engine/mig/repartition_search.hpp"
#include "engine/nodes/capacities.hpp"
#include "engine/state.hpp"

#include <optional>
#include <set>
#include <vector>

namespace qm::placement {

/// How a victim may leave for a pending workload.
struct VictimOptions {
  bool evicted = false;
  bool moved = false;  ///< to another placement, which is held for it
  [[nodiscard]] bool any() const { return evicted || moved; }
};

/// Who may be evicted or migrated for a workload, and whether it fits then. Changes nothing.
class Victims {
 public:
  Victims(const State& state, const Capacities& capacities, const Allocator& allocator, const RepartitionSearch& search,
          const MigLayouts& layouts)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        index_(state.index),
        scratch_(state.scratch),
        capacities_(capacities),
        allocator_(allocator),
        search_(search),
        layouts_(layouts) {}

  /// `instances`: holders of MIG instances are candidates, too.
  [[nodiscard]] bool may_preempt(const AttemptId& id, const Assignment& row, const WorkloadUid& to,
                                 bool instances = false) const;
  [[nodiscard]] VictimOptions victim_options(const AttemptId& id, const Assignment& row, const WorkloadUid& to) const;
  /// Whether the attempt may be migrated without a preemptor.
  [[nodiscard]] bool may_defrag(const AttemptId& id, const Assignment& row) const;
  /// The placement of the migrated workload on the planned nodes, or on any if it does not fit there. Its
  /// capacity is taken from `free_capacity`.
  [[nodiscard]] std::optional<std::vector<HeldCapacity>> migration_target(const WorkloadUid& mover,
                                                                          const std::vector<HeldCapacity>& planned,
                                                                          FreeCapacity& free_capacity) const;
  /// Whether every migrated victim fits the capacity held for it, once all victims have left.
  [[nodiscard]] bool migrations_fit(const Proposal& row) const;
  /// The placement without these victims, with the workload's held capacity and these MIG repartitions.
  /// Requires a prepared preference. If it fits, `free_capacity` includes it.
  [[nodiscard]] PlacementResult placed_without(const WorkloadUid& uid, const std::set<AttemptId>& gone,
                                               FreeCapacity& free_capacity) const;
  /// The placement without these victims, with the workload's held capacity and these MIG repartitions.
  /// Requires a prepared preference. If it fits, `free_capacity` includes it.
  [[nodiscard]] PlacementResult placed_without(const WorkloadUid& uid, const std::set<AttemptId>& gone,
                                               FreeCapacity& free_capacity, const NodeLayouts& repartitions) const;
  /// The placement after these evictions and repartitions.
  [[nodiscard]] PlacementResult placed_with_layouts(const WorkloadUid& uid, const std::set<AttemptId>& gone,
                                                    const NodeLayouts& repartitions) const;
  /// Victims that still hold their devices.
  [[nodiscard]] std::set<AttemptId> remaining_victims(const Proposal& row) const;
  /// The placement on the nodes with its held capacity. It changes no free capacity but that of this query.
  [[nodiscard]] PlacementResult place_at(const WorkloadUid& uid, const std::vector<HeldCapacity>& places) const;

 private:
  [[nodiscard]] bool is_refused(const WorkloadUid& uid, const WorkloadUid& to) const;
  [[nodiscard]] bool may_migrate(const AttemptId& id, const Assignment& row, const WorkloadUid& preemptor) const;
  [[nodiscard]] bool apply_layouts(const NodeLayouts& repartitions, const HypotheticalState& hypothetical,
                                   FreeCapacity& free_capacity) const;

  const State& state_;
  const Options& options_;
  const Tables& tables_;
  const Index& index_;
  const Scratch& scratch_;
  const Capacities& capacities_;
  const Allocator& allocator_;
  const RepartitionSearch& search_;
  const MigLayouts& layouts_;
};

}  // namespace qm::placement
