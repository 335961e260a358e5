// Demand to machines.
//
//   for each gang on the list, by priority, then by how long it waits:
//     its machines are coming, or came a moment ago            -> wait for placement
//     machines that come for others have room left for it      -> share them
//     else the cheapest (pool, type, market) that holds it whole, within limits and with capacity -> launch all at once
#include <algorithm>

#include "qm/autoscaler/engine.hpp"

namespace qm::autoscaler {
namespace {

bool on_its_way(const Claim& c) { return c.state == ClaimState::kRequested || c.state == ClaimState::kLaunched; }

std::int64_t pods_per_node(const PodShape& shape, const InstanceType& type, std::int64_t gpu_milli_free) {
  std::int64_t n = INT64_MAX;
  const std::int64_t milli = shape.gpu.total_milli();
  if (milli > 0) n = shape.gpu.whole > 0 ? gpu_milli_free / milli : (gpu_milli_free / 1000) * (1000 / milli);
  if (shape.cpu_milli > 0) n = std::min(n, type.cpu_milli / shape.cpu_milli);
  if (shape.memory_bytes > 0) n = std::min(n, type.memory_bytes / shape.memory_bytes);
  return n == INT64_MAX ? 110 : n;   // a pod that asks for nothing is bound by the kubelet's pod count
}

// Whether a node that the pool makes of this type would take the pod.
bool accepts(const PodShape& shape, const Pool& pool, const InstanceType& type) {
  if (untolerated(pool.taints, shape.tolerations) != nullptr) return false;
  if (!shape.gpu.models.empty() &&
      std::find(shape.gpu.models.begin(), shape.gpu.models.end(), type.gpu_product) == shape.gpu.models.end()) {
    return false;
  }
  for (const auto& [key, value] : shape.node_selector) {
    if (key == words::kInstanceType) {
      if (value != type.name) return false;
    } else if (key == words::kGpuProduct) {
      if (value != type.gpu_product) return false;
    } else if (key == words::kNodePool) {
      if (value != pool.name) return false;
    } else if (key == words::kZone) {
      if (std::find(pool.zones.begin(), pool.zones.end(), value) == pool.zones.end()) return false;
    } else if (key != words::kCapacityType) {   // the market is chosen with the offer
      auto it = pool.labels.find(key);
      if (it == pool.labels.end() || it->second != value) return false;
    }
  }
  return true;
}

bool market_fits(const DemandHeard::Item& item, Market market) {
  for (const auto& set : item.pod_sets) {
    auto it = set.shape.node_selector.find(std::string(words::kCapacityType));
    if (it != set.shape.node_selector.end() && it->second != name_of(market)) return false;
  }
  return true;
}

}  // namespace

std::int64_t Engine::nodes_for(const DemandHeard::Item& item, const Pool& pool, const InstanceType& t) const {
  std::int64_t nodes = 0, left_milli = 0;
  for (const auto& set : item.pod_sets) {
    if (!accepts(set.shape, pool, t)) return 0;
    const std::int64_t fit = pods_per_node(set.shape, t, t.gpus * 1000);
    if (fit <= 0) return 0;
    std::int64_t pods = set.count;
    // Small pod sets (a launcher, a parameter server) go beside the ranks where GPUs are left on the last node.
    if (const std::int64_t beside = pods_per_node(set.shape, t, left_milli); set.shape.gpu.none() ? nodes > 0 : left_milli > 0) {
      pods -= std::min(pods, beside);
    }
    if (pods <= 0) continue;
    const std::int64_t more = (pods + fit - 1) / fit;
    nodes += more;
    left_milli = t.gpus * 1000 - (pods - (more - 1) * fit) * set.shape.gpu.total_milli();
  }
  return nodes;
}

HourlyRate Engine::price(const InstanceType& t, Market market) const {
  if (market == Market::kOnDemand) return t.on_demand;
  std::optional<HourlyRate> best;   // over zones: the launch may go to the cheapest
  for (const auto& [key, row] : tables_.spot_prices) {
    if (key.first == t.name && (!best || row.rate < *best)) best = row.rate;
  }
  return best.value_or(t.on_demand);   // unknown: no reason to prefer it
}

bool Engine::within_limits(const Pool& pool, const InstanceType& t, std::int64_t nodes) const {
  std::int64_t gpus = nodes * t.gpus, cpu = nodes * t.cpu_milli, memory = nodes * t.memory_bytes;
  for (const auto& [name, c] : tables_.claims) {
    if (c.pool != pool.name || c.state == ClaimState::kGone || c.state == ClaimState::kFailed) continue;
    if (const InstanceType* other = type(c.type)) {
      gpus += other->gpus;
      cpu += other->cpu_milli;
      memory += other->memory_bytes;
    }
  }
  return (pool.limit_gpus < 0 || gpus <= pool.limit_gpus) && (pool.limit_cpu_milli < 0 || cpu <= pool.limit_cpu_milli) &&
         (pool.limit_memory_bytes < 0 || memory <= pool.limit_memory_bytes);
}

std::optional<Engine::Offer> Engine::cheapest(const DemandHeard::Item& item, std::string* why) const {
  std::vector<const Pool*> pools;
  for (const auto& [name, pool] : tables_.pools) pools.push_back(&pool);
  std::stable_sort(pools.begin(), pools.end(), [](const Pool* a, const Pool* b) { return a->weight > b->weight; });
  bool fits_somewhere = false, limited = false, blocked = false;
  for (const Pool* pool : pools) {
    std::optional<Offer> best;
    for (const auto& type_name : pool->instance_types) {
      const InstanceType* t = type(type_name);
      const std::int64_t nodes = t == nullptr ? 0 : nodes_for(item, *pool, *t);
      if (nodes == 0) continue;
      fits_somewhere = true;
      if (!within_limits(*pool, *t, nodes)) {
        limited = true;
        continue;
      }
      for (const Market market : pool->markets) {
        if (!market_fits(item, market)) continue;
        if (const Instant* until = tables_.blocked.find({t->name, market}); until != nullptr && *until > now_) {
          blocked = true;
          continue;
        }
        const Money cost = Money::nano(price(*t, market).per_hour.nano() * nodes);
        if (!best || cost < best->per_hour) best = Offer{pool, t, market, nodes, cost};
      }
    }
    if (best) return best;
  }
  if (why != nullptr) {
    *why = pools.empty()     ? "no NodePool is configured"
           : !fits_somewhere ? "no NodePool allows an instance type that holds one of its pods"
           : blocked         ? "the cloud has no capacity of the allowed types now"
           : limited         ? "the limits of the NodePools are reached"
                             : "no allowed market fits its node selector";
  }
  return std::nullopt;
}

// Whether the gang's machines are coming, or came so lately that placement may not have used them yet.
bool Engine::covered(const DemandHeard::Item& item) {
  const Plan* plan = tables_.plans.find(item.id.uid);
  if (plan == nullptr) return false;
  bool any = false;
  for (const auto& name : plan->claims) {
    const Claim* c = tables_.claims.find(name);
    if (c == nullptr || c->state == ClaimState::kFailed || c->state == ClaimState::kGone) {
      any = false;   // a machine of the gang is missing: plan anew; the others are found as room that comes
      break;
    }
    any |= on_its_way(*c) || (c->state == ClaimState::kReady && c->changed + options_.settle > now_);
  }
  if (any) {
    if (plan->promised_attempt != item.id.attempt) {
      Plan& p = tables_.plans.edit(item.id.uid);
      p.promised_attempt = item.id.attempt;
      out_.promises.push_back({item.id, p.ready_by, p.claims, false});
    }
    return true;
  }
  if (plan->promised_attempt > 0) {
    out_.promises.push_back({{item.id.uid, plan->promised_attempt}, plan->ready_by, plan->claims, true});
  }
  tables_.plans.erase(item.id.uid);
  return false;
}

void Engine::launch(const DemandHeard::Item& item, const Offer& offer) {
  Plan plan;
  plan.ready_by = now_ + options_.boot;
  plan.promised_attempt = item.id.attempt;
  for (std::int64_t i = 0; i < offer.nodes; ++i) {
    const std::int64_t number = tables_.counters.edit("claim") += 1;
    const ClaimName name(fmt::format("{}-{:05}", offer.pool->name, number));
    Claim c;
    c.pool = offer.pool->name;
    c.type = offer.type->name;
    c.market = offer.market;
    c.zone = offer.pool->zones.empty() ? std::string() : offer.pool->zones.front();
    c.requested = c.changed = now_;
    c.for_uid = item.id.uid;
    c.reason = fmt::format("for {}: {} x {} {} is the cheapest at {} USD/h", item.id.to_string(), offer.nodes,
                           offer.type->name, name_of(offer.market), offer.per_hour.to_usd(2));
    tables_.claims.insert(name, c);
    out_.launches.push_back({name, c, *offer.pool});
    plan.claims.push_back(name);
    say(name);
  }
  out_.promises.push_back({item.id, plan.ready_by, plan.claims, false});
  tables_.plans.insert(item.id.uid, std::move(plan));
}

void Engine::cover_demand() {
  std::vector<const DemandHeard::Item*> order;
  for (const auto& [uid, item] : tables_.demand) order.push_back(&item);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::tuple(-a->priority, a->since, a->id) < std::tuple(-b->priority, b->since, b->id);
  });

  // Room on machines that come: whole devices not yet spoken for, by claim.
  std::map<ClaimName, std::int64_t> room;
  for (const auto& [name, c] : tables_.claims) {
    const InstanceType* t = type(c.type);
    if (!c.pool.empty() && on_its_way(c) && t != nullptr) room[name] = t->gpus * 1000;
  }
  const auto take = [&](const DemandHeard::Item& item, const std::vector<ClaimName>& from) {
    // Pods of one kind are counted off claim by claim; a gang that does not fit whole takes nothing.
    auto left = room;
    for (const auto& set : item.pod_sets) {
      std::int64_t pods = set.count;
      for (const auto& name : from) {
        const Claim& c = *tables_.claims.find(name);
        const InstanceType* t = type(c.type);
        const Pool* pool = tables_.pools.find(c.pool);
        auto at = left.find(name);
        if (at == left.end() || t == nullptr || pool == nullptr || !accepts(set.shape, *pool, *t)) continue;
        const std::int64_t n = std::min(pods, pods_per_node(set.shape, *t, at->second));
        at->second -= n * set.shape.gpu.total_milli();
        pods -= n;
        if (pods == 0) break;
      }
      if (pods > 0) return false;
    }
    room = std::move(left);
    return true;
  };

  std::int32_t launches = 0;
  for (const auto* item : order) {
    if (covered(*item)) {
      take(*item, tables_.plans.find(item->id.uid)->claims);
      continue;
    }
    std::vector<ClaimName> coming;
    for (const auto& [name, milli] : room) {
      if (milli > 0) coming.push_back(name);
    }
    if (!coming.empty() && take(*item, coming)) {
      Plan plan{coming, now_ + options_.boot, item->id.attempt};
      out_.promises.push_back({item->id, plan.ready_by, plan.claims, false});
      tables_.plans.insert(item->id.uid, std::move(plan));
      continue;
    }
    const auto offer = cheapest(*item, nullptr);
    if (!offer || launches + offer->nodes > options_.max_launches) continue;
    launches += static_cast<std::int32_t>(offer->nodes);
    launch(*item, *offer);
    for (const auto& name : tables_.plans.find(item->id.uid)->claims) room[name] = offer->type->gpus * 1000;
    take(*item, tables_.plans.find(item->id.uid)->claims);
  }
}

std::vector<std::string> Engine::explain(Instant now) const {
  std::vector<std::string> lines;
  for (const auto& [uid, item] : tables_.demand) {
    if (const Plan* plan = tables_.plans.find(uid)) {
      const Claim* first = plan->claims.empty() ? nullptr : tables_.claims.find(plan->claims.front());
      lines.push_back(fmt::format("{} waits {:.0f} s: {} machine(s) of {} {} expected by {}", item.id.to_string(),
                                  seconds(now - item.since), plan->claims.size(), first ? first->type : "?",
                                  first ? name_of(first->market) : "?", to_rfc3339(plan->ready_by)));
    } else {
      std::string why;
      if (cheapest(item, &why)) why = "launching in the next step";
      lines.push_back(fmt::format("{} waits {:.0f} s: {}", item.id.to_string(), seconds(now - item.since), why));
    }
  }
  return lines;
}

}  // namespace qm::autoscaler
