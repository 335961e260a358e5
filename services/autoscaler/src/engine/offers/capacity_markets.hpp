#pragma once
#include "facts.hpp"
#include "launch/new_nodes.hpp"
#include "state.hpp"

#include <string>
#include <vector>

namespace qm::autoscaler {

/// The capacity that a demand item may use by the policy table. Pods that select a capacity type themselves keep it.
class CapacityMarkets {
 public:
  CapacityMarkets(const State& state, const Facts& facts, const NewNodes& nodes)
      : state_(state), tables_(state.tables), facts_(facts), nodes_(nodes) {}

  /// The item once for each capacity type that it may use, the preferred first: its pods select the type. Without a row
  /// of the table the item itself.
  [[nodiscard]] std::vector<DemandUpdated::Item> variants(const DemandUpdated::Item& item) const;
  /// "inference under reliability=on-demand: on-demand"; empty if the price decides.
  [[nodiscard]] std::string reason(const DemandUpdated::Item& item) const;

 private:
  [[nodiscard]] CapacityChoice choice(const DemandUpdated::Item& item) const;
  [[nodiscard]] bool selects_capacity(const PodSet& set) const;

  const State& state_;
  const Tables& tables_;
  const Facts& facts_;
  const NewNodes& nodes_;
};

}  // namespace qm::autoscaler
