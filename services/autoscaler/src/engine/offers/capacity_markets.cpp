// Policy to selectors: a variant of a demand item for each capacity type.
#include "offers/capacity_markets.hpp"

#include <algorithm>

namespace qm::autoscaler {

bool CapacityMarkets::selects_capacity(const PodSet& set) const {
  const std::string key(words::kCapacityType);
  const PodNeeds& needs = nodes_.needs(set);
  return needs.selector.find(key) != nullptr ||
         std::ranges::any_of(needs.terms, [&](const Requirements& term) { return term.find(key) != nullptr; });
}

CapacityChoice CapacityMarkets::choice(const DemandUpdated::Item& item) const {
  if (state_.options.reliability == Reliability::kByPrice) return {};
  if (std::ranges::any_of(item.pod_sets, [&](const PodSet& set) { return selects_capacity(set); })) return {};
  WorkloadTraits traits{item.type, false, Duration{0}};
  if (const WorkloadRow* row = tables_.workloads.find(item.id.uid)) {
    if (!row->type.empty()) traits.type = row->type;
    traits.checkpoints = row->checkpoints;
    traits.expected = row->expected;
  }
  return capacity_for(traits, state_.options.reliability);
}

std::vector<DemandUpdated::Item> CapacityMarkets::variants(const DemandUpdated::Item& item) const {
  std::vector<DemandUpdated::Item> out;
  std::vector<Market> seen;
  for (const Capacity each : choice(item).order) {
    // A launch on demand uses a reservation first.
    const Market market = each == Capacity::kSpot ? Market::kSpot : Market::kOnDemand;
    if (std::ranges::find(seen, market) != seen.end()) continue;
    seen.push_back(market);
    DemandUpdated::Item variant = item;
    for (PodSet& set : variant.pod_sets) set.shape.node_selector[std::string(words::kCapacityType)] = name_of(market);
    out.push_back(std::move(variant));
  }
  if (out.empty()) out.push_back(item);
  return out;
}

std::string CapacityMarkets::reason(const DemandUpdated::Item& item) const { return choice(item).reason; }

}  // namespace qm::autoscaler
