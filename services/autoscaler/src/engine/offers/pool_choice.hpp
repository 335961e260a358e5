#pragma once
#include "launch/new_nodes.hpp"
#include "offers/offer.hpp"
#include "state.hpp"

#include <map>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// The choice among NodePools that fit the pods, by expanders and by the sizes of similar pools. Without both, the first
/// pool in the order of weights is used.
///
/// Similar  pools with the same instance types, capacity types, taints, rules and labels, except for labels of zones, hosts
///          and node groups. Of the chosen pool and those similar to it, the one with the fewest instances is used.
class PoolChoice {
 public:
  PoolChoice(const State& state, const NewNodes& nodes)
      : state_(state), options_(state.options), tables_(state.tables), nodes_(nodes) {}

  /// Whether offers of further pools matter once one pool has an offer.
  [[nodiscard]] bool compares() const { return !options_.expanders.empty() || options_.balance_similar_pools; }
  /// One of `offers`, which are not empty and in the order of pools. With a remark if others were compared.
  [[nodiscard]] Offer choose(std::vector<Offer> offers, const std::vector<PodSet>& sets,
                             const std::map<std::string, Usage>& usage) const;

 private:
  [[nodiscard]] std::size_t by_expanders(const std::vector<Offer>& offers, const std::vector<PodSet>& sets) const;
  [[nodiscard]] std::size_t smallest_similar(const std::vector<Offer>& offers, std::size_t chosen,
                                             const std::map<std::string, Usage>& usage) const;

  const State& state_;
  const Options& options_;
  const Tables& tables_;
  const NewNodes& nodes_;
};

}  // namespace qm::autoscaler
