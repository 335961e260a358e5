#pragma once
#include "checkpoints/schedules.hpp"
#include "consolidation/consolidation.hpp"
#include "facts.hpp"
#include "instances/disruptions.hpp"
#include "instances/headroom.hpp"
#include "launch/static_pools.hpp"
#include "offers/capacity_markets.hpp"
#include "offers/offers.hpp"
#include "state.hpp"

#include <string>
#include <vector>

namespace qm::autoscaler {

/// Explains what is launched for the demand, or why nothing is.
class Explanation {
 public:
  Explanation(const State& state, const Facts& facts, const Offers& offers, const StaticPools& static_pools,
              const CapacityMarkets& markets, const Schedules& schedules, const Disruptions& disruptions,
              const Headroom& headroom, const Consolidation& consolidation)
      : tables_(state.tables),
        facts_(facts),
        offers_(offers),
        static_pools_(static_pools),
        markets_(markets),
        schedules_(schedules),
        disruptions_(disruptions),
        headroom_(headroom),
        consolidation_(consolidation) {}

  /// One line for each pending gang, one for each gang with periodic checkpoints, then one for each static pool without
  /// its number of instances and each held node. With `sees`, only gangs in the namespaces for which it returns true.
  [[nodiscard]] std::vector<std::string> explain(Instant now, std::size_t most = SIZE_MAX, const Sees& sees = {}) const;

 private:
  /// The first offer by the policy of capacity types; without one `why` has the reason, with the policy.
  [[nodiscard]] std::optional<Offer> offer_for(const DemandUpdated::Item& item,
                                               const std::map<std::string, Usage>& usage, std::string& why) const;
  const Tables& tables_;
  const Facts& facts_;
  const Offers& offers_;
  const StaticPools& static_pools_;
  const CapacityMarkets& markets_;
  const Schedules& schedules_;
  const Disruptions& disruptions_;
  const Headroom& headroom_;
  const Consolidation& consolidation_;
};

}  // namespace qm::autoscaler
