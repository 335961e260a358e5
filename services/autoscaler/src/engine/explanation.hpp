#pragma once
#include "facts.hpp"
#include "instances/disruptions.hpp"
#include "instances/headroom.hpp"
#include "launch/offers.hpp"
#include "launch/static_pools.hpp"
#include "state.hpp"

#include <string>
#include <vector>

namespace qm::autoscaler {

/// Explains what is launched for the demand, or why nothing is.
class Explanation {
 public:
  Explanation(const State& state, const Facts& facts, const Offers& offers, const StaticPools& static_pools,
              const Disruptions& disruptions, const Headroom& headroom)
      : tables_(state.tables),
        facts_(facts),
        offers_(offers),
        static_pools_(static_pools),
        disruptions_(disruptions),
        headroom_(headroom) {}

  /// One line for each pending gang, each static pool without its number of instances, and each held node. With `sees`, only gangs
  /// in the namespaces for which it returns true.
  [[nodiscard]] std::vector<std::string> explain(Instant now, std::size_t most = SIZE_MAX, const Sees& sees = {}) const;

 private:
  const Tables& tables_;
  const Facts& facts_;
  const Offers& offers_;
  const StaticPools& static_pools_;
  const Disruptions& disruptions_;
  const Headroom& headroom_;
};

}  // namespace qm::autoscaler
