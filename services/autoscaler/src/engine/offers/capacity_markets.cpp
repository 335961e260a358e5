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
  std::vector<std::string> names;
  const auto add = [&](std::string_view name) {
    if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
  };
  for (const Capacity each : choice(item).order) {
    // What is paid already comes before what is bought on demand.
    if (each != Capacity::kSpot && tables_.reservations.size() > 0) add("reserved");
    if (each != Capacity::kReserved) add(name_of(each == Capacity::kSpot ? Market::kSpot : Market::kOnDemand));
  }
  for (const auto& name : names) {
    DemandUpdated::Item variant = item;
    for (PodSet& set : variant.pod_sets) set.shape.node_selector[std::string(words::kCapacityType)] = name;
    out.push_back(std::move(variant));
  }
  if (out.empty()) out.push_back(item);
  return out;
}

std::string CapacityMarkets::reason(const DemandUpdated::Item& item) const { return choice(item).reason; }

}  // namespace qm::autoscaler
