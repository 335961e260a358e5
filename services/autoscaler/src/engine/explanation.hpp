#pragma once
#include "checkpoints/schedules.hpp"
#include "consolidation/consolidation.hpp"
#include "facts.hpp"
#include "instances/disruptions.hpp"
#include "instances/headroom.hpp"
#include "instances/scale_down.hpp"
#include "launch/static_pools.hpp"
#include "offers/candidates.hpp"
#include "state.hpp"

#include <string>
#include <vector>

namespace qm::autoscaler {

/// Explains what is launched for the demand, or why nothing is.
class Explanation {
 public:
  Explanation(const State& state, const Facts& facts, const Candidates& candidates, const StaticPools& static_pools,
              const Schedules& schedules, const Disruptions& disruptions, const Headroom& headroom,
              const ScaleDown& scale_down, const Consolidation& consolidation)
      : tables_(state.tables),
        facts_(facts),
        candidates_(candidates),
        static_pools_(static_pools),
        schedules_(schedules),
        disruptions_(disruptions),
        headroom_(headroom),
        scale_down_(scale_down),
        consolidation_(consolidation) {}

  /// One line for each pending gang, one for each gang with periodic checkpoints, then one for each static pool without
  /// its number of instances and each held node. With `sees`, only gangs in the namespaces for which it returns true.
  [[nodiscard]] std::vector<std::string> explain(Instant now, std::size_t most = SIZE_MAX, const Sees& sees = {}) const;

  /// What is launched for the workload on the demand list, or why nothing is, with at most `listed` candidates; none =
  /// it is not on the list.
  [[nodiscard]] std::optional<CapacityDecision> decision(const WorkloadUid& uid, Instant now, std::size_t listed) const;

 private:
  /// One sentence about the item; `choice`: what a launch would use now, if that decides.
  [[nodiscard]] std::string outcome_of(const DemandUpdated::Item& item, const std::map<std::string, Usage>& usage,
                                       Instant now, std::optional<Candidates::Choice>& choice) const;
  const Tables& tables_;
  const Facts& facts_;
  const Candidates& candidates_;
  const StaticPools& static_pools_;
  const Schedules& schedules_;
  const Disruptions& disruptions_;
  const Headroom& headroom_;
  const ScaleDown& scale_down_;
  const Consolidation& consolidation_;
};

}  // namespace qm::autoscaler
