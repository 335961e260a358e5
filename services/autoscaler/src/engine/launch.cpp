// Demand to instances.
//
//   for each gang on the list, by priority, pending gangs first, then by waiting time:
//     its instances are starting, or became ready a moment ago   -> wait for placement
//     starting instances, its own or others', have capacity      -> share them
//     else the cheapest offering that fits it whole, or the part its own instances lack, within limits and with
//     capacity
//          -> launch all at once; for pods without a node of a running gang, as many as possible
#include "offer.hpp"
#include "qm/base/assert.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace qm::autoscaler {
namespace {

constexpr std::int64_t kPodsPerNode = 110;  // the kubelet's default

bool is_launching(const Claim& c) { return c.state == ClaimState::kRequested || c.state == ClaimState::kLaunched; }

template <typename T>
bool contains(const std::vector<T>& list, const T& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// Whether the pod would fit a node that the pool launches with this offering.
bool accepts(const PodShape& shape, const Pool& pool, const Labels& labels, const InstanceType& type,
             const std::string& zone, Market market) {
  if (shape.gpu.mig_count > 0) return false;  // a new instance has whole devices
  if (untolerated(pool.taints, shape.tolerations) != nullptr) return false;
  if (!shape.gpu.models.empty() && !contains(shape.gpu.models, type.gpu_product)) return false;
  for (const auto& [key, value] : shape.node_selector) {
    if (key == words::kInstanceType) {
      if (value != type.name) return false;
    } else if (key == words::kGpuProduct) {
      if (value != type.gpu_product) return false;
    } else if (key == words::kNodePool) {
      if (value != pool.name) return false;
    } else if (key == words::kZone) {
      if (value != zone) return false;
    } else if (key == words::kCapacityType) {
      if (value != name_of(market)) return false;
    } else {
      const auto own = labels.find(key), of_pool = pool.labels.find(key);
      const bool here =
          own != labels.end() ? own->second == value : of_pool != pool.labels.end() && of_pool->second == value;
      if (!here) return false;
    }
  }
  return true;
}

}  // namespace

/// The free capacity of one instance.
struct Engine::FreeCapacity {
  std::int64_t gpus = 0, cpu_milli = 0, memory_bytes = 0, pods = kPodsPerNode;

  explicit FreeCapacity(const InstanceType& t) : gpus(t.gpus), cpu_milli(t.cpu_milli), memory_bytes(t.memory_bytes) {}
  /// Reserves up to `want` such pods and returns their number. The rest of a shared device is not used for other
  /// shapes.
  std::int64_t take(const PodShape& shape, std::int64_t want) {
    std::int64_t n = std::min(want, pods);
    const std::int64_t sharing = shape.gpu.milli > 0 ? 1000 / shape.gpu.milli : 1;  // pods on one device
    if (shape.gpu.whole > 0) n = std::min(n, gpus / shape.gpu.whole);
    if (shape.gpu.milli > 0) n = std::min(n, gpus * sharing);
    if (shape.cpu_milli > 0) n = std::min(n, cpu_milli / shape.cpu_milli);
    if (shape.memory_bytes > 0) n = std::min(n, memory_bytes / shape.memory_bytes);
    if (n <= 0) return 0;
    gpus -= shape.gpu.milli > 0 ? (n + sharing - 1) / sharing : n * shape.gpu.whole;
    cpu_milli -= n * shape.cpu_milli;
    memory_bytes -= n * shape.memory_bytes;
    pods -= n;
    return n;
  }
};

/// The placement of a gang on instances: the ones it uses, their remaining capacity, and the pods that did not fit.
struct Engine::Fit {
  std::vector<PodSet> rest;  ///< every set, with the pods that did not fit
  std::vector<Plan::Place> places;
  CapacityByClaim capacities;

  Fit(const Tables& tables, const std::map<std::string, InstanceType>& catalog, const std::vector<PodSet>& sets,
      CapacityByClaim from)
      : capacities(std::move(from)) {
    for (const PodSet& set : sets) {
      std::int32_t& pods = rest.emplace_back(set).count;
      for (auto& [name, capacity] : capacities) {
        if (pods == 0) break;
        const Claim& c = *tables.claims.find(name);
        if (!accepts(set.shape, *tables.pools.find(c.pool), c.labels, catalog.at(c.type), c.zone, c.market)) continue;
        const auto n = static_cast<std::int32_t>(capacity.take(set.shape, pods));
        if (n > 0) places.push_back({name, static_cast<std::int32_t>(rest.size()) - 1, n});
        pods -= n;
      }
    }
  }
  [[nodiscard]] bool whole() const {
    return std::all_of(rest.begin(), rest.end(), [](const PodSet& set) { return set.count == 0; });
  }
  /// Writes the pods' places to the plan, and the remaining capacity to `others`.
  void settle(Plan& plan, CapacityByClaim& others) const {
    for (const auto& place : places) {
      if (!contains(plan.claims, place.claim)) plan.claims.push_back(place.claim);
      others.insert_or_assign(place.claim, capacities.at(place.claim));
      plan.places.push_back(place);
    }
  }
};

std::map<std::string, Engine::Usage> Engine::usage() const {
  std::map<std::string, Usage> out;
  for (const auto& [name, c] : tables_.claims) {
    if (c.pool.empty() || c.state == ClaimState::kGone || c.state == ClaimState::kFailed) continue;
    if (const InstanceType* t = type(c.type)) out[c.pool].add(*t, 1);
  }
  return out;
}

// The number of instances that the gang needs of this offering, counted one by one; 0 = impossible with it.
std::int64_t Engine::nodes_for(const std::vector<PodSet>& sets, const Pool& pool, const Labels& labels,
                               const InstanceType& t, const std::string& zone, Market market) const {
  std::vector<FreeCapacity> open;
  for (const PodSet& set : sets) {
    if (set.count == 0) continue;
    if (!accepts(set.shape, pool, labels, t, zone, market)) return 0;
    std::int64_t pods = set.count;
    for (FreeCapacity& capacity : open) pods -= capacity.take(set.shape, pods);
    while (pods > 0) {
      FreeCapacity& capacity = open.emplace_back(t);
      const std::int64_t n = capacity.take(set.shape, pods);
      // Above the limit of one step the count is irrelevant: the caller reports it.
      if (n == 0) return 0;
      if (static_cast<std::int64_t>(open.size()) > options_.max_launches) return options_.max_launches + 1;
      pods -= n;
    }
  }
  return static_cast<std::int64_t>(open.size());
}

std::vector<Offering> Engine::offerings(const Pool& pool, const InstanceType& t,
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
      for (const auto& set : sets) {
        auto it = set.shape.node_selector.find(std::string(words::kZone));
        if (set.count > 0 && it != set.shape.node_selector.end() && !contains(zones, it->second))
          zones.push_back(it->second);
      }
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

// Appends the zones of prices, instances and other pools, in order of name.
void Engine::known_zones(const InstanceType& t, std::vector<std::string>& zones) const {
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

std::optional<HourlyRate> Engine::price(const InstanceType& t, const Offering& o, const Pool& pool) const {
  if (o.market == Market::kOnDemand) return t.on_demand;
  if (const PriceRow* row = tables_.spot_prices.find({o.type, o.zone})) return row->rate;
  // Without a price there is no reason to prefer spot; a spot-only pool uses it at its upper bound.
  if (std::find(pool.markets.begin(), pool.markets.end(), Market::kOnDemand) != pool.markets.end()) return std::nullopt;
  return t.on_demand;
}

std::string Engine::no_type(const std::vector<PodSet>& sets, const std::vector<const Pool*>& pools) const {
  const Pool* changed = nullptr;
  const InstanceType* allowed = nullptr;
  for (const Pool* pool : pools) {
    const auto labels = chosen_labels(*pool, sets);
    if (!labels || !pool->group.empty()) continue;  // a group has fixed types
    for (const auto& [name, t] : catalog_) {
      const bool fits = std::ranges::any_of(offerings(*pool, t, sets), [&](const Offering& o) {
        return price(t, o, *pool) && nodes_for(sets, *pool, *labels, t, o.zone, o.market) > 0;
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
    const bool fits = set.count == 0 || std::ranges::any_of(catalog_, [&](const auto& known) {
                        return FreeCapacity(known.second).take(set.shape, 1) > 0;
                      });
    if (!fits) {
      return fmt::format("no instance type of the price catalog fits a pod of pod set {}; make its pods smaller",
                         set.name);
    }
  }
  return "no NodePool matches the node selector, the affinity and the tolerations of its pods; change them, or labels, "
         "taints and requirements of a NodePool";
}

std::optional<Engine::Offer> Engine::cheapest(const std::vector<PodSet>& sets,
                                              const std::map<std::string, Usage>& usage, std::string* why) const {
  std::vector<const Pool*> pools;
  // A static pool has its instances independent of demand, and no others.
  for (const auto& [name, pool] : tables_.pools) {
    if (!pool.is_static()) pools.push_back(&pool);
  }
  std::stable_sort(pools.begin(), pools.end(), [](const Pool* a, const Pool* b) { return a->weight > b->weight; });
  bool fits = false, large = false, blocked = false, zoneless = false;
  std::map<std::pair<std::string, std::string>,
           std::pair<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::string>>
      limited;  ///< by NodePool and resource
  std::string contested;
  for (const Pool* pool : pools) {
    std::optional<Offer> best;
    const auto in_use = usage.find(pool->name);
    const auto labels = chosen_labels(*pool, sets);
    if (!labels) {
      if (contested.empty()) contested = contested_label(*pool, sets);
      continue;
    }
    for (const auto& type_name : pool->instance_types) {
      const InstanceType* t = type(type_name);
      if (t == nullptr) continue;
      auto offered = offerings(*pool, *t, sets);
      zoneless |= offered.empty() && !pool->markets.empty();
      for (auto& offering : offered) {
        const auto rate = price(*t, offering, *pool);
        const std::int64_t nodes = rate ? nodes_for(sets, *pool, *labels, *t, offering.zone, offering.market) : 0;
        if (nodes == 0) continue;
        fits = true;
        Usage after = in_use == usage.end() ? Usage{} : in_use->second;
        after.add(*t, nodes);
        const Instant* until = tables_.blocked.find(offering);
        if (nodes > options_.max_launches) {
          large = true;
        } else if (!after.beyond(*pool).empty()) {
          // Of several types, the one that exceeds the limit by the least.
          const auto key = std::pair(pool->name, std::string(after.beyond(*pool)));
          const auto least = std::tuple(after.gpus, after.cpu_milli, nodes);
          const auto [known, first] = limited.try_emplace(key, least, "");
          if (first || least < known->second.first)
            known->second = {least, after.limit_text(*pool, in_use == usage.end() ? Usage{} : in_use->second)};
        } else if (until != nullptr && *until > now_) {
          blocked = true;
        } else if (const Money cost = Money::nano(rate->per_hour.nano() * nodes); !best || cost < best->per_hour) {
          best = Offer{pool, t, std::move(offering), nodes, cost, *labels};
        }
      }
    }
    if (best) return best;
  }
  if (why != nullptr) {
    std::vector<std::string> limits;
    for (const auto& [key, one] : limited) limits.push_back(one.second);
    *why = pools.empty() ? (tables_.pools.size() == 0 ? "no NodePool is configured"
                                                      : "each NodePool is static: spec.replicas is set")
           : !fits && zoneless
               ? "the NodePools exclude every zone that is known; allow one in spec.template.spec.requirements"
           : !fits && !contested.empty()
               ? fmt::format(
                     "its pod sets select different values of the label {}, and instances launched for a workload have "
                     "one: select one value, or submit them as several workloads",
                     contested)
           : !fits   ? no_type(sets, pools)
           : blocked ? "the provider has no capacity of the allowed instance types now, or refuses to launch them"
           : !limited.empty() ? fmt::format("{}; raise spec.limits of the NodePool", fmt::join(limits, "; "))
           : large ? fmt::format("it needs more than {} instances, the limit of one launch", options_.max_launches)
                   : "";
  }
  return std::nullopt;
}

std::string Engine::title_of(const AttemptId& id) const {
  const WorkloadRow* row = tables_.workloads.find(id.uid);
  return row == nullptr || row->name.empty() ? id.to_string() : row->ns + "/" + row->name;
}

void Engine::promise(const AttemptId& id, Plan plan) {
  plan.promised_attempt = id.attempt;
  out_.promises.push_back({id, plan.ready_by, plan.claims, false});
  tables_.plans.insert(id.uid, std::move(plan));
}

// The plan failed. Its experience with the gang remains while the gang is pending.
void Engine::withdraw(const WorkloadUid& uid) {
  const Plan* plan = tables_.plans.find(uid);
  if (plan == nullptr) return;
  if (plan->promised_attempt > 0) {
    out_.promises.push_back({{uid, plan->promised_attempt}, plan->ready_by, plan->claims, true});
  }
  if (plan->fruitless == 0 || !tables_.demand.contains(uid)) {
    tables_.plans.erase(uid);
  } else if (plan->promised_attempt > 0) {
    tables_.plans.edit(uid).promised_attempt = 0;
  }
}

void Engine::end_lapsed_plans() {
  std::vector<WorkloadUid> over;
  for (const auto& [uid, plan] : tables_.plans) {
    if (!tables_.demand.contains(uid) && (plan.promised_attempt == 0 || plan.ready_by <= now_)) over.push_back(uid);
  }
  for (const auto& uid : over) withdraw(uid);
}

// Whether the gang's instances are starting, or became ready so recently that placement may not have used them yet.
Engine::Cover Engine::review(const DemandUpdated::Item& item) {
  const Plan* plan = tables_.plans.find(item.id.uid);
  if (plan == nullptr) return Cover::kOpen;
  if (plan->promised_attempt == 0) return plan->not_before > now_ ? Cover::kPaused : Cover::kOpen;
  bool coming = false, idle = false;
  for (const auto& name : plan->claims) {
    const Claim* c = tables_.claims.find(name);
    if (c == nullptr || !(is_launching(*c) || c->state == ClaimState::kReady)) return Cover::kOpen;
    if (doomed(*c)) return Cover::kOpen;
    const NodeRow* node = node_of(*c);
    coming |= is_launching(*c) || c->changed + options_.settle > now_;
    idle |= c->state == ClaimState::kReady && node != nullptr && node->pods == 0;
  }
  if (coming) {
    if (plan->promised_attempt != item.id.attempt || plan->ready_by <= now_) {
      Plan renewed = *plan;
      renewed.ready_by = std::max(renewed.ready_by, now_ + options_.extension);
      promise(item.id, std::move(renewed));
    }
    return Cover::kCovered;
  }
  if (!idle) return Cover::kOpen;  // other gangs used them
  pause(item.id.uid);
  return Cover::kPaused;
}

// The gang's instances are idle and it is still pending: more of the same would not help. Placement knows more
// constraints.
void Engine::pause(const WorkloadUid& uid) {
  Plan& p = tables_.plans.edit(uid);
  p.not_before = now_ + options_.pause * (1 << std::min(p.fruitless, 5));
  ++p.fruitless;
  withdraw(uid);
}

// An instance that will be terminated soon, in any state: nothing is planned on it.
bool Engine::doomed(const Claim& c) const {
  const NodeRow* node = tables_.nodes.find(c.node);
  return node != nullptr && (node->instance.empty() || node->instance == c.instance) &&
         (node->taken_at || node->broken);
}

Engine::CapacityByClaim Engine::capacity_of_launches() const {
  CapacityByClaim capacities;
  for (const auto& [name, c] : tables_.claims) {
    const InstanceType* t = type(c.type);
    if (t != nullptr && is_launching(c) && !doomed(c) && tables_.pools.contains(c.pool)) capacities.emplace(name, *t);
  }
  return capacities;
}

void Engine::launch(const ClaimName& name, const Claim& c, const Pool& pool) {
  tables_.claims.insert(name, c);
  if (c.group.empty()) out_.launches.push_back({name, c, pool});  // else the group grows by it
  mark_changed(name);
}

// Finds or launches the gang's instances; false = impossible now.
bool Engine::provide(const DemandUpdated::Item& item, CapacityByClaim& capacities, std::map<std::string, Usage>& usage,
                     std::int64_t& launches) {
  const Plan* before = tables_.plans.find(item.id.uid);
  Plan plan;
  plan.ready_by = now_ + options_.boot;
  if (before != nullptr) plan.fruitless = before->fruitless;

  // Starting or idle instances of a failed plan still belong to the gang.
  CapacityByClaim own, all = capacities;
  for (const auto& name : before == nullptr ? std::vector<ClaimName>{} : before->claims) {
    const Claim* c = tables_.claims.find(name);
    if (c == nullptr || !tables_.pools.contains(c->pool) || type(c->type) == nullptr) continue;
    const NodeRow* node = node_of(*c);
    const bool idle = c->state == ClaimState::kReady && node != nullptr && node->ready && !node->cordoned &&
                      node->pods == 0 && !doomed(*c) && before->promised_attempt > 0;
    if (auto it = capacities.find(name); it != capacities.end()) {
      own.insert(*it);
    } else if (idle) {
      own.emplace(name, *type(c->type));
    }
  }
  all.insert(own.begin(), own.end());
  if (Fit fit(tables_, catalog_, item.pod_sets, std::move(all)); fit.whole() && !fit.places.empty()) {
    const bool news = std::any_of(fit.places.begin(), fit.places.end(), [&](const Plan::Place& place) {
      const Claim& c = *tables_.claims.find(place.claim);
      return is_launching(c) || c.changed + options_.settle > now_;
    });
    if (!news) {
      pause(item.id.uid);
      return true;
    }
    fit.settle(plan, capacities);
    promise(item.id, std::move(plan));
    return true;
  }
  Fit fit(tables_, catalog_, item.pod_sets, std::move(own));
  const auto offer = cheapest(fit.rest, usage, nullptr);
  if (!offer || launches + offer->nodes > options_.max_launches) return false;
  launches += offer->nodes;
  usage[offer->pool->name].add(*offer->type, offer->nodes);
  fit.settle(plan, capacities);
  CapacityByClaim fresh;
  for (std::int64_t i = 0; i < offer->nodes; ++i) {
    const std::int64_t number = tables_.counters.edit("claim") += 1;
    const ClaimName name(fmt::format("{}-{:05}", offer->pool->name, number));
    Claim c;
    c.pool = offer->pool->name;
    c.type = offer->type->name;
    c.market = offer->offering.market;
    c.zone = offer->offering.zone;
    c.requested = c.changed = now_;
    c.for_uid = item.id.uid;
    c.reason = fmt::format("for {}: {} x {} {} is the cheapest at {} USD/h", title_of(item.id), offer->nodes,
                           offer->type->name, name_of(c.market), offer->per_hour.to_usd(2));
    c.group = offer->pool->group;
    c.labels = offer->labels;
    launch(name, c, *offer->pool);
    fresh.emplace(name, *offer->type);
  }
  // The remaining capacity of its instances may fit another gang.
  const Fit laid(tables_, catalog_, fit.rest, std::move(fresh));
  QM_ASSERT(laid.whole(), "the instances launched for {} do not fit it", item.id.to_string());
  laid.settle(plan, capacities);
  promise(item.id, std::move(plan));
  return true;
}

// The most pods of the item for which there is an offering within limits and with capacity, sets in their order; none = for no pod.
std::optional<DemandUpdated::Item> Engine::affordable_part(const DemandUpdated::Item& item,
                                                           const std::map<std::string, Usage>& usage,
                                                           std::int64_t launches) const {
  const auto part = [&](std::int64_t pods) {
    DemandUpdated::Item out = item;
    for (PodSet& set : out.pod_sets) {
      set.count = static_cast<std::int32_t>(std::min<std::int64_t>(set.count, pods));
      pods -= set.count;
    }
    return out;
  };
  std::int64_t can = 0, cannot = 0;
  for (const PodSet& set : item.pod_sets) cannot += set.count;
  while (cannot - can > 1) {
    const auto pods = can + (cannot - can) / 2;
    const auto offer = cheapest(part(pods).pod_sets, usage, nullptr);
    (offer && launches + offer->nodes <= options_.max_launches ? can : cannot) = pods;
  }
  if (can == 0) return std::nullopt;
  return part(can);
}

void Engine::cover_demand() {
  end_lapsed_plans();
  std::vector<const DemandUpdated::Item*> order, open;
  for (const auto& [uid, item] : tables_.demand) order.push_back(&item);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::tuple(-a->priority, a->runs, a->since, a->id) < std::tuple(-b->priority, b->runs, b->since, b->id);
  });
  CapacityByClaim capacities = capacity_of_launches();
  // Places in existing plans are reserved before any new decision.
  for (const auto* item : order) {
    const Cover cover = review(*item);
    if (cover == Cover::kOpen && other_owner(*item) != nullptr) {
      withdraw(item->id.uid);
    } else if (cover == Cover::kOpen) {
      open.push_back(item);
    }
    if (cover != Cover::kCovered) continue;
    for (const auto& [claim, set, pods] : tables_.plans.find(item->id.uid)->places) {
      const auto capacity = capacities.find(claim);
      if (capacity != capacities.end() && set < std::ssize(item->pod_sets)) {
        capacity->second.take(item->pod_sets[static_cast<std::size_t>(set)].shape, pods);
      }
    }
  }
  if (open.empty()) return;
  auto in_use = usage();
  std::int64_t launches = 0;
  for (const auto* item : open) {
    if (provide(*item, capacities, in_use, launches)) continue;
    const auto part = item->runs ? affordable_part(*item, in_use, launches) : std::nullopt;
    if (!part || !provide(*part, capacities, in_use, launches)) withdraw(item->id.uid);
  }
}

namespace {
std::string launched_by(const OwnerRow& other) {
  return other.owner == "none" ? "no autoscaler launches nodes for its namespace"
                               : fmt::format("{} launches the nodes of its namespace", other.owner);
}
}  // namespace

std::string Engine::namespace_of(const WorkloadUid& uid) const {
  if (const WorkloadRow* row = tables_.workloads.find(uid); row != nullptr && !row->ns.empty()) return row->ns;
  const auto* item = tables_.demand.find(uid);
  return item == nullptr ? std::string() : item->ns;
}

std::string Engine::subject_of(const DemandUpdated::Item& item) const {
  if (!item.runs) return title_of(item.id) + " is pending";
  std::int64_t pods = 0;
  for (const PodSet& set : item.pod_sets) pods += set.count;
  return fmt::format("{} runs without {} of its pods", title_of(item.id), pods);
}

std::vector<std::string> Engine::explain(Instant now, std::size_t most, const Sees& sees) const {
  std::vector<std::string> lines;
  const auto in_use = usage();
  for (const auto& [uid, item] : tables_.demand) {
    if (lines.size() >= most) break;
    if (sees && !sees(namespace_of(uid))) continue;
    const Plan* plan = tables_.plans.find(uid);
    std::string what;
    if (plan != nullptr && plan->promised_attempt > 0) {
      const Claim* first = plan->claims.empty() ? nullptr : tables_.claims.find(plan->claims.front());
      what = fmt::format("{} instance(s) of {} {} are expected by {}", plan->claims.size(), first ? first->type : "?",
                         first ? name_of(first->market) : "?", to_rfc3339(plan->ready_by));
    } else if (plan != nullptr && plan->not_before > now) {
      what = fmt::format(
          "instances were launched for it {} time(s), and placement did not use them; no others are launched before {}",
          plan->fruitless, to_rfc3339(plan->not_before));
    } else if (const auto offer = cheapest(item.pod_sets, in_use, &what)) {
      what = "instances are launched in the next step";
      if (const OwnerRow* other = other_owner(item)) {
        what = fmt::format("{}; Quartermaster would launch {} x {} {} at {} USD/h", launched_by(*other), offer->nodes,
                           offer->type->name, name_of(offer->offering.market), offer->per_hour.to_usd(2));
      }
    } else if (const OwnerRow* other = other_owner(item)) {
      what = fmt::format("{}; for Quartermaster: {}", launched_by(*other), what);
    }
    lines.push_back(fmt::format("{} for {:.0f} s: {}", subject_of(item), seconds(now - item.since), what));
  }
  if (!sees) explain_replicas(lines);
  return lines;
}

void Engine::check_laws() const {
  std::map<InstanceId, ClaimName> by_instance;
  for (const auto& [name, c] : tables_.claims) {
    if (c.instance.empty() || c.state == ClaimState::kGone) continue;
    const auto [other, first] = by_instance.emplace(c.instance, name);
    QM_ASSERT(first, "instance {} belongs to claims {} and {}", c.instance, other->second, name);
  }
  std::set<std::string> launched;
  for (const auto& name : changed_claims_) {
    const Claim* c = tables_.claims.find(name);
    if (c != nullptr && c->state == ClaimState::kRequested && c->requested == now_) launched.insert(c->pool);
  }
  if (launched.empty()) return;
  const auto in_use = usage();
  for (const auto& name : launched) {
    const Pool* pool = tables_.pools.find(name);
    QM_ASSERT(pool != nullptr && in_use.at(name).beyond(*pool).empty(), "pool {} exceeds its limits after a launch",
              name);
  }
}

}  // namespace qm::autoscaler
