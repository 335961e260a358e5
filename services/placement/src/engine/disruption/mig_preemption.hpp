#pragma once
#include "engine/disruption/proposals.hpp"
#include "engine/disruption/victims.hpp"
#include "engine/mig/mig_layouts.hpp"
#include "engine/mig/mig_repartitions.hpp"
#include "engine/mig/repartition_search.hpp"
#include "engine/nodes/capacities.hpp"
#include "engine/nodes/nodes.hpp"
#include "engine/rows.hpp"
#include "engine/state.hpp"

#include <set>

namespace qm::placement {

/// Preemption for MIG instances. An option for a node is that holders of instances leave, or that all users of its GPUs
/// leave and the node is repartitioned to an allowed layout.
class MigPreemption {
 public:
  MigPreemption(State& state, Rows& rows, Proposals& proposals, Nodes& nodes, const RepartitionSearch& search,
                MigRepartitions& repartitions, const Victims& victims, const Capacities& capacities,
                const MigLayouts& layouts)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        index_(state.index),
        scratch_(state.scratch),
        rows_(rows),
        proposals_(proposals),
        nodes_(nodes),
        search_(search),
        repartitions_(repartitions),
        victims_(victims),
        capacities_(capacities),
        layouts_(layouts) {}

  /// False if it needs no instances, or not only instances: then the general search runs.
  [[nodiscard]] bool propose(const WorkloadUid& uid, const std::set<AttemptId>& terminating);
  /// No answer yet: whether all victims may still be evicted and are needed, at no more than the planned cost.
  [[nodiscard]] bool is_valid(const WorkloadUid& uid) const;
  /// The victims have left: repartitions are ordered and hold the new instances.
  void order_repartitions(const WorkloadUid& uid);

 private:
  [[nodiscard]] bool fits_idle(const WorkloadUid& uid) const;

  State& state_;
  const Options& options_;
  Tables& tables_;
  Index& index_;
  Scratch& scratch_;
  Rows& rows_;
  Proposals& proposals_;
  Nodes& nodes_;
  const RepartitionSearch& search_;
  MigRepartitions& repartitions_;
  const Victims& victims_;
  const Capacities& capacities_;
  const MigLayouts& layouts_;
};

}  // namespace qm::placement
