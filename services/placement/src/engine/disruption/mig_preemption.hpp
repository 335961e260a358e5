#pragma once
#include "engine/disruption/proposals.hpp"
#include "engine/disruption/victims.hpp"
#include "engine/mig/mig_layouts.hpp"
#include "engine/mig/repartition_search.hpp"
#include "engine/nodes/capacities.hpp"
#include "engine/state.hpp"

#include <optional>
#include <set>

namespace qm::placement {

/// Preemption plans for workloads that request MIG instances: victims release instances, or nodes are repartitioned
/// after all users of their GPUs have left.
class MigPreemption {
 public:
  MigPreemption(const State& state, const RepartitionSearch& search, const Victims& victims,
                const Capacities& capacities, const MigLayouts& layouts)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        index_(state.index),
        search_(search),
        victims_(victims),
        capacities_(capacities),
        layouts_(layouts) {}

  /// The cheapest plan. None if the workload requests no instances, or also GPUs and there is no plan: then the general
  /// search runs. `terminating`: victims of other proposals.
  [[nodiscard]] std::optional<SearchResult> plan(const WorkloadUid& uid, const std::set<AttemptId>& terminating) const;
  /// No answer yet: whether all victims may still be evicted and are needed, at no more than the planned cost.
  [[nodiscard]] bool is_valid(const WorkloadUid& uid) const;

 private:
  /// Whether idle GPUs can be repartitioned for it, or a repartition in progress for others is enough.
  [[nodiscard]] bool fits_idle(const WorkloadUid& uid) const;

  const State& state_;
  const Options& options_;
  const Tables& tables_;
  const Index& index_;
  const RepartitionSearch& search_;
  const Victims& victims_;
  const Capacities& capacities_;
  const MigLayouts& layouts_;
};

}  // namespace qm::placement
