// Candidates of a launch, each with the reason for which it is not the choice.
#include "offers/candidates.hpp"

#include "launch/fit.hpp"
#include "offers/avoided.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace qm::autoscaler {
namespace {

std::string gibi(std::int64_t bytes) { return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30)); }
std::string cores(std::int64_t milli) { return fmt::format("{:g} CPUs", static_cast<double>(milli) / 1000); }

std::int64_t count_of(const std::vector<PodSet>& sets) {
  std::int64_t out = 0;
  for (const PodSet& set : sets) out += set.count;
  return out;
}

/// Resources of one pod that an instance has a limited amount of. A share of a GPU counts in thousandths.
std::map<std::string, std::int64_t> requests_of(const PodShape& shape) {
  std::map<std::string, std::int64_t> out{{"cpu", shape.cpu_milli}, {"memory", shape.memory_bytes}, {"pods", 1}};
  out[std::string(words::kGpuResource)] = shape.gpu.milli > 0 ? shape.gpu.milli : shape.gpu.whole * 1000;
  for (const auto& [resource, amount] : shape.extended) {
    if (resource != "ephemeral-storage") out[resource] += amount;
  }
  std::erase_if(out, [](const auto& entry) { return entry.second <= 0; });
  return out;
}

std::int64_t amount_of(const FreeCapacity& node, const std::string& resource) {
  if (resource == "cpu") return node.cpu_milli;
  if (resource == "memory") return node.memory_bytes;
  if (resource == "pods") return node.pods;
  if (resource == words::kGpuResource) return node.gpus * 1000;
  const auto at = node.extended.find(resource);
  return at == node.extended.end() ? 0 : at->second;
}

/// The cheapest price of one unit of each resource, and of one pod, over the instances that accept a pod set.
struct UnitPrices {
  std::map<std::string, double> per_unit;
  std::optional<double> per_pod;
};

void lower(std::optional<double>& to, double value) { to = std::min(to.value_or(value), value); }

}  // namespace

std::string_view name_of(Rejection rejection) {
  constexpr std::string_view names[] = {"Chosen",        "MoreExpensive",  "LowerWeight",  "NoCapacity",
                                        "LimitExceeded", "PolicyExcluded", "TooFewValues", "NotReadied",
                                        "TooMany",       "NoKnownPrice",   "NotAllowed",   "DoesNotFit",
                                        "LabelConflict", "NodePoolNotUsed"};
  return names[static_cast<std::size_t>(rejection)];
}

/// What all candidates of one item have in common.
struct Candidates::Request {
  const std::vector<PodSet>& sets;
  const std::string& zone;  ///< of the room; empty = any
  const std::map<std::string, Usage>& usage;
  const std::optional<Offer>& chosen;
  std::set<Market> markets;  ///< that the policy allows; empty = all
  std::string policy;
};

std::optional<Offer> Candidates::offer_for(const DemandUpdated::Item& item, const std::map<std::string, Usage>& usage,
                                           std::string& why) const {
  for (const auto& variant : markets_.variants(item)) {
    if (auto offer = offers_.cheapest(variant.pod_sets, usage, &why, variant.room_zone)) return offer;
  }
  if (const std::string policy = markets_.reason(item); !policy.empty()) why += fmt::format(" ({})", policy);
  return std::nullopt;
}

Candidates::Choice Candidates::choice(const DemandUpdated::Item& item,
                                      const std::map<std::string, Usage>& usage) const {
  Choice out{item, {}, {}};
  for (std::size_t i = 0; i < std::min(item.pod_sets.size(), item.room.size()); ++i) {
    auto& count = out.wanted.pod_sets[i].count;
    count = std::max(count - item.room[i], 0);
  }
  if (!item.room.empty() && count_of(out.wanted.pod_sets) > 0) {
    out.offer = offer_for(out.wanted, usage, out.why);
    if (out.offer) return out;
  }
  out.wanted = item;
  out.wanted.room.clear(), out.wanted.room_zone.clear();
  out.offer = offer_for(out.wanted, usage, out.why);
  return out;
}

std::string Candidates::missing_amount(const PodSet& set, const NodeSide& side) const {
  const FreeCapacity node = nodes_.empty(side);
  for (const auto& [resource, wanted] : requests_of(set.shape)) {
    const std::int64_t has = amount_of(node, resource);
    if (has >= wanted) continue;
    const auto text = [&](std::int64_t amount) {
      if (resource == "cpu") return cores(amount);
      if (resource == "memory") return gibi(amount);
      if (resource == words::kGpuResource) return fmt::format("{:g} GPUs", static_cast<double>(amount) / 1000);
      return fmt::format("{} {}", amount, resource);
    };
    return fmt::format("a pod of {} requests {}, and a node has {} without its DaemonSets", set.name, text(wanted),
                       text(std::max<std::int64_t>(has, 0)));
  }
  return {};
}

std::string Candidates::misfit(const PodSet& set, const NodeSide& side) const {
  const PodShape& shape = set.shape;
  if (shape.gpu.mig_count > 0) return "its pods request MIG devices, and a new node has whole GPUs";
  if (const Taint* taint = untolerated(side.pool.taints, shape.tolerations); taint != nullptr)
    return fmt::format("its pods do not tolerate the taint {}={}:{} of the NodePool", taint->key, taint->value,
                       taint->effect);
  const auto& models = shape.gpu.models;
  if (!models.empty() && std::ranges::find(models, side.type.gpu_product) == models.end()) {
    return fmt::format("its pods select the GPU model {}, and the type has {}", models.front(),
                       side.type.gpu_product.empty() ? "none" : side.type.gpu_product);
  }
  if (!nodes_.accepts(set, side)) return "the node selector or node affinity of its pods excludes it";
  const std::string amount = missing_amount(set, side);
  return amount.empty() ? "its pods exclude one another on one node" : amount;
}

std::string Candidates::held_until(const Offering& offering) const {
  for (const Offering& wider : held_with(offering)) {
    const Outage* outage = tables_.blocked.find(wider);
    if (outage == nullptr || outage->until <= state_.now) continue;
    return fmt::format("refused at {}, not requested before {}", to_rfc3339(outage->last), to_rfc3339(outage->until));
  }
  return {};
}

void Candidates::judge(const Pool& pool, const InstanceType& type, const Offering& offering, const Labels& labels,
                       const Request& request, CapacityCandidate& out) const {
  const auto reject = [&](Rejection rejection, std::string why) {
    out.rejection = rejection;
    out.why = std::move(why);
  };
  const auto rate = offers_.price(type, offering, pool);
  if (!rate)
    return reject(Rejection::kNoPrice,
                  "the price of its spot capacity is not known, and on-demand capacity is allowed");
  out.node_per_hour = rate->per_hour;
  out.nodes = offers_.nodes_for(request.sets, pool, labels, type, offering);
  const NodeSide side{pool, labels, type, offering.zone, offering.market};
  if (out.nodes == 0) {
    for (const PodSet& set : request.sets) {
      const bool fits =
          set.count == 0 || (nodes_.accepts(set, side) && nodes_.empty(side).take(set.shape, nodes_.needs(set), 1) > 0);
      if (!fits) return reject(Rejection::kDoesNotFit, misfit(set, side));
    }
    return reject(Rejection::kDoesNotFit, "its pods do not fit");
  }
  out.per_hour = Money::nano(rate->per_hour.nano() * out.nodes);
  const auto at = request.usage.find(pool.name);
  const Usage in_use = at == request.usage.end() ? Usage{} : at->second;
  Usage after = in_use;
  after.add(type, out.nodes);
  Avoided avoided(facts_, pool);
  if (out.nodes > state_.options.max_launches)
    return reject(Rejection::kTooMany,
                  fmt::format("it needs more than {} instances, the limit of one launch", state_.options.max_launches));
  if (!after.beyond(pool).empty()) return reject(Rejection::kLimit, after.limit_text(pool, in_use));
  if (avoided.refuses(type.name)) return reject(Rejection::kFaulty, avoided.text());
  if (offers_.lacks_capacity(offering)) return reject(Rejection::kNoCapacity, held_until(offering));
  if (!request.markets.empty() && !request.markets.contains(offering.market))
    return reject(Rejection::kPolicy, request.policy);
  const auto& chosen = request.chosen;
  if (!chosen) return reject(Rejection::kMinValues, "the offerings that fit have too few values for its minValues");
  if (chosen->pool->name == pool.name && chosen->type->name == type.name && chosen->offering == offering) return;
  const double more = static_cast<double>((out.per_hour - chosen->per_hour).nano());
  const double share = chosen->per_hour.nano() == 0 ? 0 : 100 * more / static_cast<double>(chosen->per_hour.nano());
  const auto difference = fmt::format("{} USD/h against {} of the choice ({:+.1f} %)", out.per_hour.to_usd(2),
                                      chosen->per_hour.to_usd(2), share);
  if (chosen->pool->name != pool.name) {
    const bool by_weight = chosen->pool->weight > pool.weight;
    return reject(Rejection::kPoolOrder,
                  by_weight
                      ? fmt::format("NodePool {} comes first (weight {} against {}): {}", chosen->pool->name,
                                    chosen->pool->weight, pool.weight, difference)
                      : fmt::format("NodePool {} comes first{}: {}", chosen->pool->name, chosen->remarks, difference));
  }
  if (facts_.fault(type.name, pool) != nullptr)
    return reject(Rejection::kFaulty, "avoided, because its instances did not become ready lately: " + difference);
  reject(Rejection::kCost, difference);
}

void Candidates::of_pool(const Pool& pool, const Request& request, std::vector<CapacityCandidate>& out) const {
  const auto whole = [&](Rejection rejection, std::string why) {
    CapacityCandidate& one = out.emplace_back();
    one.pool = pool.name;
    one.rejection = rejection;
    one.why = std::move(why);
  };
  if (!pool.not_ready.empty()) return whole(Rejection::kPoolNotUsed, "not ready: " + pool.not_ready);
  if (pool.is_static())
    return whole(Rejection::kPoolNotUsed, "it is static: spec.replicas sets the number of its instances");
  if (pool.manual) return whole(Rejection::kPoolNotUsed, "an operator sets the size of its group");
  const auto labels = nodes_.chosen_labels(pool, request.sets);
  if (!labels) {
    const std::string key = nodes_.contested_label(pool, request.sets);
    return whole(Rejection::kLabels, key.empty() ? "its rules and the node selectors of the pods have no common value"
                                                 : "its pod sets select different values of the label " + key);
  }
  for (const auto& [name, type] : state_.catalog) {
    const bool allowed = std::ranges::binary_search(pool.instance_types, name);
    if (!allowed && !pool.group.empty()) continue;  // a group has fixed types
    auto offered = offers_.offerings(pool, type, request.sets);
    if (!request.zone.empty()) Offers::keep_zone(pool, request.zone, offered);
    for (const Offering& offering : offered) {
      CapacityCandidate one;
      one.pool = pool.name;
      one.type = name;
      one.zone = offering.zone;
      one.market = offering.market;
      judge(pool, type, offering, *labels, request, one);
      if (!allowed) {
        if (one.nodes == 0) continue;
        one.rejection = Rejection::kNotAllowed;
        one.why = "spec.template.spec.requirements of the NodePool excludes the type";
      }
      out.push_back(std::move(one));
    }
  }
}

std::vector<CapacityCandidate> Candidates::all(const DemandUpdated::Item& item,
                                               const std::map<std::string, Usage>& usage,
                                               const std::optional<Offer>& chosen) const {
  std::vector<CapacityCandidate> out;
  Request request{item.pod_sets, item.room_zone, usage, chosen, {}, markets_.reason(item)};
  if (!request.policy.empty()) {
    for (const auto& variant : markets_.variants(item)) {
      const auto& selector = variant.pod_sets.front().shape.node_selector;
      const auto market = selector.find(std::string(words::kCapacityType));
      if (market != selector.end())
        request.markets.insert(market->second == name_of(Market::kSpot) ? Market::kSpot : Market::kOnDemand);
    }
  }
  for (const auto& [name, pool] : tables_.pools) of_pool(pool, request, out);
  std::ranges::stable_sort(out, {}, [](const CapacityCandidate& one) {
    return std::tuple(one.rejection, one.per_hour, one.node_per_hour, one.type, one.zone, one.market, one.pool);
  });
  return out;
}

// Each instance with price p and the amount c of a resource pays p / c for a unit of it, so the pods pay at least the
// cheapest unit price of the instances that accept them. The same holds for the pods of one set that fit one instance.
PriceBound Candidates::bound(const std::vector<PodSet>& sets) const {
  PriceBound out;
  if (!state_.options.provider || count_of(sets) == 0) return out;
  std::map<std::string, double> by_resource;
  std::map<std::string, double> by_set;
  for (const PodSet& set : sets) {
    if (set.count == 0) continue;
    UnitPrices prices;
    const auto requests = requests_of(set.shape);
    for (const Pool* pool : offers_.pools_in_order()) {
      const auto labels = nodes_.chosen_labels(*pool, {set});
      if (!labels) continue;
      for (const auto& name : pool->instance_types) {
        const InstanceType* type = facts_.type(name);
        if (type == nullptr) continue;
        for (const auto& [offering, rate] : offers_.available(*pool, *type, sets)) {
          const NodeSide side{*pool, *labels, *type, offering.zone, offering.market};
          if (!nodes_.accepts(set, side)) continue;
          FreeCapacity node = nodes_.empty(side);
          const FreeCapacity whole = node;
          const std::int64_t pods = node.take(set.shape, nodes_.needs(set), set.count);
          if (pods <= 0) continue;
          const auto price = static_cast<double>(rate.per_hour.nano());
          lower(prices.per_pod, price / static_cast<double>(pods));
          for (const auto& [resource, wanted] : requests) {
            const double unit = price / static_cast<double>(amount_of(whole, resource));
            const auto [known, first] = prices.per_unit.emplace(resource, unit);
            if (!first) known->second = std::min(known->second, unit);
          }
        }
      }
    }
    if (!prices.per_pod) return {};  // no candidate holds one of its pods
    by_set["pods of " + set.name] = *prices.per_pod * set.count;
    for (const auto& [resource, wanted] : requests)
      by_resource[resource] += prices.per_unit.at(resource) * static_cast<double>(wanted) * set.count;
  }
  by_resource.merge(by_set);
  double highest = 0;
  for (const auto& [by, value] : by_resource) {
    if (value <= highest) continue;
    highest = value;
    out.by = by;
  }
  // A nano-dollar less than the sum, so that rounding does not lift it above a price.
  out.per_hour = Money::nano(std::max<std::int64_t>(0, static_cast<std::int64_t>(highest) - 1));
  return out;
}

}  // namespace qm::autoscaler
