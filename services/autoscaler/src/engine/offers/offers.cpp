// Offerings and prices.
#include "offers/offers.hpp"

#include "launch/fit.hpp"
#include "launch/overlays.hpp"
#include "offers/avoided.hpp"
#include "qm/base/assert.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace qm::autoscaler {
namespace {

constexpr const char* kNoProvider =
    "no-provider: the cluster has no cloud that launches instances (driver=none); add nodes, or end other workloads";

template <typename T>
bool contains(const std::vector<T>& list, const T& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

// The number of instances that the gang needs of this offering, counted one by one; 0 = impossible with it.
std::int64_t Offers::nodes_for(const std::vector<PodSet>& sets, const Pool& pool, const Labels& labels,
                               const InstanceType& t, const Offering& o) const {
  const NodeSide side{pool, labels, t, o.zone, o.market, !o.reservation.empty()};
  if (std::ranges::any_of(sets, [&](const PodSet& set) { return set.count > 0 && !nodes_.accepts(set, side); }))
    return 0;
  const FreeCapacity fresh = nodes_.empty(side);
  std::vector<FreeCapacity> open;
  for (const PodSet& set : sets) {
    if (set.count == 0) continue;
    const PodNeeds& needs = nodes_.needs(set);
    std::int64_t pods = set.count;
    for (FreeCapacity& capacity : open) pods -= capacity.take(set.shape, needs, pods);
    while (pods > 0) {
      FreeCapacity& capacity = open.emplace_back(fresh);
      const std::int64_t n = capacity.take(set.shape, needs, pods);
      // Above the limit of one step the count is irrelevant: the caller reports it.
      if (n == 0) return 0;
      if (static_cast<std::int64_t>(open.size()) > options_.max_launches) return options_.max_launches + 1;
      pods -= n;
    }
  }
  return static_cast<std::int64_t>(open.size());
}

std::vector<Offering> Offers::offerings(const Pool& pool, const InstanceType& t,
                                        const std::vector<PodSet>& sets) const {
  std::vector<Offering> out;
  // On-demand first: at the same price an instance without interruptions is better.
  for (const Market market : {Market::kOnDemand, Market::kSpot}) {
    if (std::find(pool.markets.begin(), pool.markets.end(), market) == pool.markets.end()) continue;
    std::vector<std::string> zones = pool.zones;
    if (!pool.group.empty()) {
      if (zones.size() != 1) zones = {std::string()};  // the group selects among its zones
    } else if (zones.empty()) {
      // Any zone: those that a pod selects, those with a price, and the cloud's choice.
      zones = nodes_.named_zones(sets);
      if (market == Market::kSpot) {
        const auto& rows = tables_.spot_prices.rows();
        for (auto it = rows.lower_bound({t.name, ""}); it != rows.end() && it->first.first == t.name; ++it) {
          if (!contains(zones, it->first.second)) zones.push_back(it->first.second);
        }
      }
      if (pool.not_zones.empty()) {
        zones.emplace_back();
      } else {
        // The cloud would select among all zones: only known zones can be requested.
        known_zones(t, zones);
        std::erase_if(zones, [&](const auto& zone) { return contains(pool.not_zones, zone); });
      }
    }
    for (auto& zone : zones) out.push_back({t.name, std::move(zone), market, pool.group});
  }
  return out;
}

// Keeps the offerings in the zone. Where the cloud would select the zone, it is requested; a group selects by itself.
void Offers::keep_zone(const Pool& pool, const std::string& zone, std::vector<Offering>& offerings) {
  const bool open = pool.group.empty() && pool.zones.empty() && !contains(pool.not_zones, zone);
  std::erase_if(offerings,
                [&](const Offering& offering) { return offering.zone != zone && (!offering.zone.empty() || !open); });
  std::vector<Offering> kept;
  for (Offering& offering : offerings) {
    offering.zone = zone;
    if (!contains(kept, offering)) kept.push_back(std::move(offering));
  }
  offerings = std::move(kept);
}

// Appends the zones of prices, instances and other pools, in order of name.
void Offers::known_zones(const InstanceType& t, std::vector<std::string>& zones) const {
  std::set<std::string> names;
  const auto& rows = tables_.spot_prices.rows();
  for (auto it = rows.lower_bound({t.name, ""}); it != rows.end() && it->first.first == t.name; ++it)
    names.insert(it->first.second);
  for (const auto& [name, claim] : tables_.claims) names.insert(claim.zone);
  for (const auto& [name, pool] : tables_.pools) names.insert(pool.zones.begin(), pool.zones.end());
  names.erase("");
  for (const auto& zone : names) {
    if (!contains(zones, zone)) zones.push_back(zone);
  }
}

std::optional<HourlyRate> Offers::price(const InstanceType& t, const Offering& o, const Pool& pool) const {
  const auto overlaid = [&](HourlyRate rate) {
    static const Labels kNone;
    return HourlyRate{overlaid_price(state_, {pool, kNone, t, o.zone, o.market}, rate.per_hour)};
  };
  if (o.market == Market::kOnDemand) return overlaid(t.on_demand);
  if (const PriceRow* row = tables_.spot_prices.find({o.type, o.zone})) return overlaid(row->rate);
  // Without a price there is no reason to prefer spot; a spot-only pool uses it at its upper bound.
  if (std::find(pool.markets.begin(), pool.markets.end(), Market::kOnDemand) != pool.markets.end()) return std::nullopt;
  return overlaid(t.on_demand);
}

std::optional<HourlyRate> Offers::price_of(const Claim& claim) const {
  if (!claim.reservation.empty()) return HourlyRate{};  // paid with or without it
  const Pool* pool = tables_.pools.find(claim.pool);
  const InstanceType* type = facts_.type(claim.type);
  if (pool == nullptr || type == nullptr) return std::nullopt;
  return price(*type, {claim.type, claim.zone, claim.market, claim.group}, *pool);
}

std::vector<Offers::Priced> Offers::candidates(const Pool& pool, const InstanceType& t, const Labels& labels,
                                               const std::vector<PodSet>& sets, const std::string& zone,
                                               Duration expected, bool& zoneless) const {
  std::vector<Priced> out;
  for (const auto& reserved_zone : reserved_.zones(pool, t.name)) {
    if (!zone.empty() && zone != reserved_zone) continue;
    const Offering any{t.name, reserved_zone, Market::kOnDemand, {}, "any"};
    const std::int64_t nodes = nodes_for(sets, pool, labels, t, any);
    if (nodes == 0) continue;
    if (auto found = reserved_.offering(pool, t.name, reserved_zone, nodes, expected))
      out.push_back({std::move(*found), HourlyRate{}});
  }
  auto offered = offerings(pool, t, sets);
  if (!zone.empty()) keep_zone(pool, zone, offered);
  zoneless |= offered.empty() && !pool.markets.empty();
  for (auto& offering : offered) {
    if (const auto rate = price(t, offering, pool)) out.push_back({std::move(offering), *rate});
  }
  return out;
}

bool Offers::lacks_capacity(const Offering& offering) const { return alternative(offering, 0).held; }

std::vector<Offers::Priced> Offers::available(const Pool& pool, const InstanceType& t,
                                              const std::vector<PodSet>& sets) const {
  std::vector<Priced> out;
  for (Offering& offering : offerings(pool, t, sets)) {
    const auto rate = price(t, offering, pool);
    if (rate && !lacks_capacity(offering)) out.push_back({std::move(offering), *rate});
  }
  return out;
}

std::string Offers::no_type(const std::vector<PodSet>& sets, const std::vector<const Pool*>& pools) const {
  const Pool* changed = nullptr;
  const InstanceType* allowed = nullptr;
  for (const Pool* pool : pools) {
    const auto labels = nodes_.chosen_labels(*pool, sets);
    if (!labels || !pool->group.empty()) continue;  // a group has fixed types
    for (const auto& [name, t] : state_.catalog) {
      const bool fits = std::ranges::any_of(offerings(*pool, t, sets), [&](const Offering& o) {
        return price(t, o, *pool) && nodes_for(sets, *pool, *labels, t, o) > 0;
      });
      if (!fits || (allowed != nullptr && allowed->on_demand.per_hour <= t.on_demand.per_hour)) continue;
      changed = pool;
      allowed = &t;
    }
  }
  if (allowed != nullptr) {
    return fmt::format(
        "no NodePool allows an instance type that its pods fit on; allow {} in spec.template.spec.requirements of "
        "NodePool {}",
        allowed->name, changed->name);
  }
  for (const PodSet& set : sets) {
    const bool fits = set.count == 0 || std::ranges::any_of(state_.catalog, [&](const auto& known) {
                        return FreeCapacity(known.second).take(set.shape, nodes_.needs(set), 1) > 0;
                      });
    if (!fits) {
      return fmt::format("no instance type of the price catalog fits a pod of pod set {}; make its pods smaller",
                         set.name);
    }
  }
  return "no NodePool matches the node selector, the affinity and the tolerations of its pods; change them, or labels, "
         "taints and requirements of a NodePool";
}

// By weight, the heaviest first, then by name, the last first; without static pools, which have their instances
// independent of demand, and without pools that are not ready.
std::vector<const Pool*> Offers::pools_in_order() const {
  std::vector<const Pool*> pools;
  for (const auto& [name, pool] : tables_.pools) {
    if (!pool.is_static() && !pool.manual && pool.not_ready.empty()) pools.push_back(&pool);
  }
  std::ranges::sort(
      pools, [](const Pool* a, const Pool* b) { return std::tie(b->weight, b->name) < std::tie(a->weight, a->name); });
  return pools;
}

// "; not ready: NodePool a, NodePool b"; empty if all are.
std::string Offers::unready_pools() const {
  std::vector<std::string> names;
  for (const auto& [name, pool] : tables_.pools) {
    if (!pool.not_ready.empty()) names.push_back("NodePool " + name);
  }
  return names.empty() ? std::string() : fmt::format("; not ready: {}", fmt::join(names, ", "));
}

std::string Offers::no_pool() const {
  if (tables_.pools.size() == 0) return "no NodePool is configured";
  for (const auto& [name, pool] : tables_.pools) {
    if (!pool.is_static() && !pool.manual) return fmt::format("NodePool {} is not ready: {}", name, pool.not_ready);
  }
  return "each NodePool is static (spec.replicas) or sized manually";
}

// "3 of KEY, and 2 types that fit have it" for the first label of which the fitting types have too few values.
std::string Offers::missing_values(const Pool& pool, const std::vector<Candidate>& fitting) {
  for (const auto& [key, wanted] : pool.min_values) {
    std::set<std::string> values;
    for (const Candidate& candidate : fitting) {
      const Requirement* label = candidate.type->labels.find(key);
      if (key == words::kZone) {
        values.insert(candidate.zone);
      } else if (key == words::kCapacityType) {
        values.insert(candidate.capacity_type);
      } else if (key == words::kInstanceType) {
        values.insert(candidate.type->name);
      } else if (label != nullptr && label->op() == Operator::kIn) {
        values.insert(label->values.begin(), label->values.end());
      }
    }
    if (values.size() < static_cast<std::size_t>(wanted))
      return fmt::format("{} of {} (the offerings that fit have {})", wanted, key, values.size());
  }
  return {};
}

Alternative Offers::alternative(const Offering& offering, std::int64_t nano_usd_hour) const {
  const bool reserved = !offering.reservation.empty();
  Alternative out{nano_usd_hour, 0, reserved ? -1 : offering.market == Market::kSpot ? 1 : 0, false};
  for (const Offering& wider : held_with(offering)) {
    const Outage* outage = tables_.blocked.find(wider);
    if (outage == nullptr) continue;
    out.still_out_milli = std::max(out.still_out_milli, still_out_milli(*outage, state_.now, options_.memory));
    out.held |= outage->until > state_.now;
  }
  return out;
}

std::vector<LaunchOption> Offers::others_of(const Offer& best, const std::vector<Offer>& offers,
                                            const std::vector<std::size_t>& order) const {
  std::vector<LaunchOption> out;
  if (options_.alternatives == 0 || !best.pool->group.empty() || best.offering.zone.empty() ||
      !best.offering.reservation.empty())
    return out;
  std::optional<Money> most;
  for (const std::size_t i : order) {
    if (best.offering.market == Market::kSpot && offers[i].offering.market == Market::kOnDemand)
      most = most ? std::min(*most, offers[i].per_hour) : offers[i].per_hour;
  }
  Usage of_best;
  of_best.add(*best.type, best.nodes);
  for (const std::size_t i : order) {
    const Offer& other = offers[i];
    if (!other.offering.reservation.empty() || other.offering.market != best.offering.market ||
        other.offering.zone.empty() || other.nodes != best.nodes || other.offering == best.offering ||
        (most && other.per_hour > *most))
      continue;
    Usage of_other;
    of_other.add(*other.type, other.nodes);
    if (!of_other.within(of_best, *best.pool) || facts_.fault(other.type->name, *best.pool) != nullptr) continue;
    out.push_back({other.type->name, other.offering.zone});
    if (out.size() == options_.alternatives) break;
  }
  return out;
}

std::optional<Offer> Offers::cheapest(const std::vector<PodSet>& sets, const std::map<std::string, Usage>& usage,
                                      std::string* why, const std::string& zone, Duration expected) const {
  if (!options_.provider) {
    if (why != nullptr) *why = kNoProvider;
    return std::nullopt;
  }
  const std::vector<const Pool*> pools = pools_in_order();
  bool fits = false, large = false, blocked = false, zoneless = false;
  std::string faulty;  ///< why a type that fits is not launched again
  std::map<std::pair<std::string, std::string>,
           std::pair<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::string>>
      limited;  ///< by NodePool and resource
  std::string contested, inflexible;
  std::vector<Offer> found;  ///< one of each NodePool that fits
  for (const Pool* pool : pools) {
    std::vector<Candidate> fitting;
    std::vector<Offer> offers;
    std::vector<Alternative> alternatives;
    const auto in_use = usage.find(pool->name);
    const auto labels = nodes_.chosen_labels(*pool, sets);
    Avoided avoided(facts_, *pool);
    if (!labels) {
      if (contested.empty()) contested = nodes_.contested_label(*pool, sets);
      continue;
    }
    for (const auto& type_name : pool->instance_types) {
      const InstanceType* t = facts_.type(type_name);
      if (t == nullptr) continue;
      for (auto& [offering, rate] : candidates(*pool, *t, *labels, sets, zone, expected, zoneless)) {
        const std::int64_t nodes = nodes_for(sets, *pool, *labels, *t, offering);
        if (nodes == 0) continue;
        fits = true;
        fitting.push_back({t, offering.zone, std::string(capacity_type_of(offering))});
        Usage after = in_use == usage.end() ? Usage{} : in_use->second;
        after.add(*t, nodes);
        if (nodes > options_.max_launches) {
          large = true;
        } else if (!after.beyond(*pool).empty()) {
          // Of several types, the one that exceeds the limit by the least.
          const auto key = std::pair(pool->name, std::string(after.beyond(*pool)));
          const auto least = std::tuple(after.gpus, after.cpu_milli, nodes);
          const auto [known, first] = limited.try_emplace(key, least, "");
          if (first || least < known->second.first)
            known->second = {least, after.limit_text(*pool, in_use == usage.end() ? Usage{} : in_use->second)};
        } else if (avoided.refuses(type_name)) {
          faulty = avoided.text();
        } else {
          const Money cost = Money::nano(rate.per_hour.nano() * nodes);
          // Each node costs its price and the node price.
          alternatives.push_back(alternative(offering, cost.nano() + nodes * options_.node_price.nano()));
          blocked |= alternatives.back().held;
          offers.push_back({pool, t, std::move(offering), nodes, cost, *labels});
        }
      }
    }
    std::optional<Offer> best;
    const std::vector<std::size_t> order = ranked(alternatives);
    for (const std::size_t rank : order) {
      if (const Offer& offer = offers[rank]; !best || avoided.better(*offer.type, offer.per_hour, *best)) best = offer;
    }
    const std::string missing = best ? missing_values(*pool, fitting) : std::string();
    if (!missing.empty() && options_.strict_min_values) {
      inflexible = fmt::format("NodePool {} needs minValues {}", pool->name, missing);
      continue;
    }
    if (best) best->others = others_of(*best, offers, order);
    if (best) best->remarks = avoided.note(*best);
    if (best && !missing.empty()) best->remarks += fmt::format("; minValues {} is relaxed", missing);
    if (best && !choice_.compares()) return best;
    if (best) found.push_back(std::move(*best));
  }
  if (!found.empty()) return choice_.choose(std::move(found), sets, usage);
  if (why != nullptr) {
    std::vector<std::string> limits;
    for (const auto& [key, one] : limited) limits.push_back(one.second);
    *why = pools.empty() ? no_pool()
           : !fits && zoneless
               ? "the NodePools exclude every zone that is known; allow one in spec.template.spec.requirements"
           : !fits && !contested.empty()
               ? fmt::format(
                     "its pod sets select different values of the label {}, and instances launched for a workload have "
                     "one: select one value, or submit them as several workloads",
                     contested)
           : !fits               ? no_type(sets, pools) + unready_pools()
           : !inflexible.empty() ? inflexible
           : !faulty.empty()     ? faulty
           : blocked ? "the provider has no capacity of the allowed instance types now, or refuses to launch them"
           : !limited.empty() ? fmt::format("{}; raise spec.limits of the NodePool", fmt::join(limits, "; "))
           : large ? fmt::format("it needs more than {} instances, the limit of one launch", options_.max_launches)
                   : "";
  }
  return std::nullopt;
}

std::optional<Offer> Offers::cheapest_replica(const Pool& pool, const Usage& in_use, std::string* why,
                                              const InstanceType* at_least) const {
  std::optional<Offer> best;
  if (!options_.provider) {
    if (why != nullptr) *why = kNoProvider;
    return best;
  }
  Avoided avoided(facts_, pool);
  std::string reason = "it allows no instance type, capacity type and zone that exist";
  if (!pool.not_ready.empty()) {
    if (why != nullptr) *why = fmt::format("it is not ready: {}", pool.not_ready);
    return best;
  }
  const auto labels = nodes_.chosen_labels(pool, {});
  for (const auto& type_name : pool.instance_types) {
    const InstanceType* t = facts_.type(type_name);
    if (t == nullptr || !labels || (at_least != nullptr && !t->covers(*at_least))) continue;
    std::vector<Offering> offered;
    for (const auto& zone : reserved_.zones(pool, t->name)) {
      if (auto found = reserved_.offering(pool, t->name, zone, 1, Duration{0})) offered.push_back(std::move(*found));
    }
    std::ranges::move(offerings(pool, *t, {}), std::back_inserter(offered));
    for (auto& offering : offered) {
      const auto rate = offering.reservation.empty() ? price(*t, offering, pool) : HourlyRate{};
      if (!rate) continue;
      Usage after = in_use;
      after.add(*t, 1);
      if (!after.beyond(pool).empty()) {
        reason = after.limit_text(pool, in_use) + "; raise spec.limits of the NodePool";
      } else if (lacks_capacity(offering)) {
        reason = "the provider has no capacity of the allowed instance types now, or refuses to launch them";
      } else if (avoided.refuses(type_name)) {
        reason = avoided.text();
      } else if (!best || avoided.better(*t, rate->per_hour, *best)) {
        best = Offer{&pool, t, std::move(offering), 1, rate->per_hour, *labels};
      }
    }
  }
  if (why != nullptr) *why = reason;
  return best;
}

}  // namespace qm::autoscaler
