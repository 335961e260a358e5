#pragma once
#include "facts.hpp"
#include "instances/claims.hpp"
#include "launch/fit.hpp"
#include "launch/gang_launches.hpp"
#include "launch/joint.hpp"
#include "launch/new_nodes.hpp"
#include "launch/plans.hpp"
#include "offers/capacity_markets.hpp"
#include "offers/offer.hpp"
#include "offers/offers.hpp"
#include "state.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace qm::autoscaler {

/// Demand to instances: starting instances are shared, then the cheapest offering that fits a gang whole is launched.
/// Pods that need no common start are planned together.
class Launches {
 public:
  Launches(State& state, const Facts& facts, Claims& claims, const Offers& offers, Plans& plans, const NewNodes& nodes,
           const CapacityMarkets& markets, GangLaunches& gangs, const JointPlanner& joint)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        facts_(facts),
        claims_(claims),
        offers_(offers),
        plans_(plans),
        nodes_(nodes),
        markets_(markets),
        gangs_(gangs),
        joint_(joint) {}

  /// Launches instances for the demand, gang by gang.
  void cover_demand();

 private:
  enum class Cover { kOpen, kCovered, kPaused };
  /// What the decisions of one step share: capacity of starting instances, use of limits, and launched instances.
  struct Step {
    CapacityByClaim capacities;
    std::map<std::string, Usage> usage;
    std::int64_t launches = 0;
    std::set<std::pair<std::vector<PodSet>, std::string>> known_unschedulable =
        {};  ///< pods without an offer, by zone: limits and capacity only shrink
  };
  using Items = JointPlanner::Items;
  void cover_demand_once();
  Cover review(const DemandUpdated::Item& item);
  [[nodiscard]] CapacityByClaim capacity_of_launches() const;
  bool provide(const DemandUpdated::Item& item, Step& step);
  enum class Provided { kYes, kNoOffer, kLater };
  Provided provide_all(const DemandUpdated::Item& item, Step& step);
  /// Shares starting instances, and its own idle ones; false = they do not fit all of its pods.
  bool share(const DemandUpdated::Item& item, Step& step);
  [[nodiscard]] CapacityByClaim own_capacity(const DemandUpdated::Item& item, const Step& step) const;
  [[nodiscard]] Plan new_plan(const WorkloadUid& uid) const;
  [[nodiscard]] ClaimName new_claim(const Pool& pool);
  /// Launches one instance of the offer; `id`: of the launch of a gang with several nodes, else empty.
  /// `pods`: that it is for; empty: those of the gang.
  void launch(const ClaimName& name, const Offer& offer, const WorkloadUid& uid, const std::string& id,
              std::string reason, Step& step, const std::vector<PodSet>& pods = {});
  /// Launches instances for items that are planned together, and returns those that still lack some.
  [[nodiscard]] Items launch_together(const Items& items, Step& step);
  [[nodiscard]] std::vector<LaunchOption> others_of(const JointPlanner::Node& node, const Items& items,
                                                    const Step& step,
                                                    std::map<std::vector<PodSet>, std::optional<Offer>>& known) const;
  [[nodiscard]] std::optional<DemandUpdated::Item> affordable_part(const DemandUpdated::Item& item,
                                                                   const Step& step) const;

  State& state_;
  const Options& options_;
  Tables& tables_;
  const Facts& facts_;
  Claims& claims_;
  const Offers& offers_;
  Plans& plans_;
  const NewNodes& nodes_;
  const CapacityMarkets& markets_;
  GangLaunches& gangs_;
  const JointPlanner& joint_;
  bool rolled_back_ = false;  ///< in this pass over the demand
};

}  // namespace qm::autoscaler
