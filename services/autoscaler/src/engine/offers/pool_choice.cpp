// Expanders and balanced groups: the choice of Cluster Autoscaler, over the cheapest offer of each NodePool.
#include "offers/pool_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

namespace qm::autoscaler {
namespace {

/// Labels that differ between groups of the same nodes.
bool distinguishes_groups(const std::string& key) {
  constexpr std::array<std::string_view, 8> kKeys{
      "topology.kubernetes.io/zone",   "failure-domain.beta.kubernetes.io/zone",
      "topology.ebs.csi.aws.com/zone", "kubernetes.io/hostname",
      "eks.amazonaws.com/nodegroup",   "alpha.eksctl.io/nodegroup-name",
      "k8s.amazonaws.com/eniConfig",   "cloud.google.com/gke-nodepool"};
  return std::ranges::find(kKeys, key) != kKeys.end();
}

Labels common_labels(const Pool& pool) {
  Labels out = pool.labels;
  std::erase_if(out, [](const auto& label) { return distinguishes_groups(label.first); });
  return out;
}

bool similar(const Pool& a, const Pool& b) {
  const auto nodes = [](const Pool& pool) {
    return std::tie(pool.weight, pool.instance_types, pool.markets, pool.taints, pool.rules, pool.node_resources,
                    pool.expander_priority);
  };
  return nodes(a) == nodes(b) && common_labels(a) == common_labels(b);
}

}  // namespace

std::size_t PoolChoice::by_expanders(const std::vector<Offer>& offers, const std::vector<PodSet>& sets) const {
  std::vector<Expansion> options;
  for (const Offer& offer : offers) {
    const NodeSide side{*offer.pool,         offer.labels,          *offer.type,
                        offer.offering.zone, offer.offering.market, !offer.offering.reservation.empty()};
    const FreeCapacity node = nodes_.empty(side);
    Expansion one;
    one.group = offer.pool->group.empty() ? offer.pool->name : offer.pool->group;
    one.priority = offer.pool->expander_priority;
    one.nodes = offer.nodes;
    one.per_hour = offer.per_hour;
    one.cpu_milli = offer.nodes * node.cpu_milli;
    one.memory_bytes = offer.nodes * node.memory_bytes;
    for (const PodSet& set : sets) {
      one.pods += set.count;
      one.used_cpu_milli += set.count * set.shape.cpu_milli;
      one.used_memory_bytes += set.count * set.shape.memory_bytes;
    }
    options.push_back(std::move(one));
  }
  // Each launch has the next number, so random choices are spread and a replay repeats them.
  const std::int64_t* last = tables_.counters.find("claim");
  return choose_expansion(options_.expanders, options, static_cast<std::uint64_t>(last == nullptr ? 0 : *last));
}

std::size_t PoolChoice::smallest_similar(const std::vector<Offer>& offers, std::size_t chosen,
                                         const std::map<std::string, Usage>& usage) const {
  const auto instances = [&](const Offer& offer) {
    const auto in_use = usage.find(offer.pool->name);
    return in_use == usage.end() ? std::int64_t{0} : in_use->second.instances;
  };
  std::size_t best = chosen;
  for (std::size_t i = 0; i < offers.size(); ++i) {
    if (!similar(*offers[i].pool, *offers[chosen].pool)) continue;
    const auto rank = [&](std::size_t at) { return std::tuple(instances(offers[at]), offers[at].pool->name); };
    if (rank(i) < rank(best)) best = i;
  }
  return best;
}

Offer PoolChoice::choose(std::vector<Offer> offers, const std::vector<PodSet>& sets,
                         const std::map<std::string, Usage>& usage) const {
  std::size_t chosen = 0;
  if (!options_.expanders.empty() && offers.size() > 1) chosen = by_expanders(offers, sets);
  if (options_.balance_similar_pools) chosen = smallest_similar(offers, chosen, usage);
  Offer out = std::move(offers[chosen]);
  if (offers.size() > 1 && !options_.expanders.empty()) {
    out.remarks += fmt::format("; of {} NodePools that fit, expander {} chose {}", offers.size(),
                               name_of(options_.expanders.front()), out.pool->name);
  }
  return out;
}

}  // namespace qm::autoscaler
