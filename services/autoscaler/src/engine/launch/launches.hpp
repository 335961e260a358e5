#pragma once
#include "facts.hpp"
#include "instances/claims.hpp"
#include "launch/capacity_markets.hpp"
#include "launch/fit.hpp"
#include "launch/new_nodes.hpp"
#include "launch/offer.hpp"
#include "launch/offers.hpp"
#include "launch/plans.hpp"
#include "state.hpp"

#include <map>
#include <optional>
#include <string>

namespace qm::autoscaler {

/// Demand to instances: starting instances are shared, then the cheapest offering that fits a gang whole is launched.
class Launches {
 public:
  Launches(State& state, const Facts& facts, Claims& claims, const Offers& offers, Plans& plans, const NewNodes& nodes,
           const CapacityMarkets& markets)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        facts_(facts),
        claims_(claims),
        offers_(offers),
        plans_(plans),
        nodes_(nodes),
        markets_(markets) {}

  /// Launches instances for the demand, gang by gang.
  void cover_demand();

 private:
  enum class Cover { kOpen, kCovered, kPaused };
  Cover review(const DemandUpdated::Item& item);
  [[nodiscard]] CapacityByClaim capacity_of_launches() const;
  bool provide(const DemandUpdated::Item& item, CapacityByClaim& capacities, std::map<std::string, Usage>& usage,
               std::int64_t& launches);
  [[nodiscard]] std::optional<DemandUpdated::Item> affordable_part(const DemandUpdated::Item& item,
                                                                   const std::map<std::string, Usage>& usage,
                                                                   std::int64_t launches) const;

  State& state_;
  const Options& options_;
  Tables& tables_;
  const Facts& facts_;
  Claims& claims_;
  const Offers& offers_;
  Plans& plans_;
  const NewNodes& nodes_;
  const CapacityMarkets& markets_;
};

}  // namespace qm::autoscaler
