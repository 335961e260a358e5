#pragma once
#include "engine/allocator/allocator.hpp"
#include "engine/disruption/proposals.hpp"
#include "engine/disruption/victims.hpp"
#include "engine/nodes/capacities.hpp"
#include "engine/state.hpp"

#include <map>
#include <optional>
#include <set>

namespace qm::placement {

/// Preemption plans for workloads with quota that do not fit: the cheapest victims, each evicted or migrated.
class Preemption {
 public:
  Preemption(const State& state, const Victims& victims, const Allocator& allocator, const Capacities& capacities)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        index_(state.index),
        victims_(victims),
        allocator_(allocator),
        capacities_(capacities) {}

  /// The cheapest plan. `terminating`: victims of other proposals.
  [[nodiscard]] SearchResult plan(const WorkloadUid& uid, const std::set<AttemptId>& terminating) const;
  /// No answer yet: whether the proposal would be made again at no higher cost.
  [[nodiscard]] bool is_valid(const WorkloadUid& uid) const;

 private:
  /// Victims and their migration targets. None if the workload does not fit without the candidates.
  [[nodiscard]] std::optional<DisruptionPlan> plan_with(
      const WorkloadUid& uid, const std::map<AttemptId, VictimOptions>& candidate_options) const;

  const State& state_;
  const Options& options_;
  const Tables& tables_;
  const Index& index_;
  const Victims& victims_;
  const Allocator& allocator_;
  const Capacities& capacities_;
};

}  // namespace qm::placement
