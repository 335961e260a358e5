#pragma once
#include "facts.hpp"
#include "launch/new_nodes.hpp"
#include "offers/capacity_markets.hpp"
#include "offers/offers.hpp"
#include "qm/autoscaler/decision.hpp"
#include "state.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// Every offering that a launch considers, with its price and the reason for which it is not launched. Only
/// explanations use it: the choice itself is that of Offers.
///
/// Cost     pools x catalog x zones x markets, each with a count of nodes.
class Candidates {
 public:
  Candidates(const State& state, const Facts& facts, const NewNodes& nodes, const Offers& offers,
             const CapacityMarkets& markets)
      : state_(state), tables_(state.tables), facts_(facts), nodes_(nodes), offers_(offers), markets_(markets) {}

  /// What a launch of an item would use now.
  struct Choice {
    DemandUpdated::Item wanted;  ///< the pods that need instances: without those that have room, if that has an offer
    std::optional<Offer> offer;
    std::string why;  ///< without an offer
  };
  [[nodiscard]] Choice choice(const DemandUpdated::Item& item, const std::map<std::string, Usage>& usage) const;
  /// All candidates for the pods of the item: `chosen` first, then by rejection and price.
  [[nodiscard]] std::vector<CapacityCandidate> all(const DemandUpdated::Item& item,
                                                   const std::map<std::string, Usage>& usage,
                                                   const std::optional<Offer>& chosen) const;
  /// The lower bound for pod sets: by each resource, and by the pods of a set that fit one instance.
  [[nodiscard]] PriceBound bound(const std::vector<PodSet>& sets) const;

 private:
  [[nodiscard]] std::optional<Offer> offer_for(const DemandUpdated::Item& item,
                                               const std::map<std::string, Usage>& usage, std::string& why) const;
  struct Request;
  void of_pool(const Pool& pool, const Request& request, std::vector<CapacityCandidate>& out) const;
  void judge(const Pool& pool, const InstanceType& type, const Offering& offering, const Labels& labels,
             const Request& request, CapacityCandidate& out) const;
  [[nodiscard]] std::string misfit(const PodSet& set, const NodeSide& side) const;
  [[nodiscard]] std::string missing_amount(const PodSet& set, const NodeSide& side) const;
  [[nodiscard]] std::string held_until(const Offering& offering) const;

  const State& state_;
  const Tables& tables_;
  const Facts& facts_;
  const NewNodes& nodes_;
  const Offers& offers_;
  const CapacityMarkets& markets_;
};

}  // namespace qm::autoscaler
