// Static NodePools: `replicas` nodes, independent of demand.
#include "launch/static_pools.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

bool is_awaited(const Claim& c) { return c.state == ClaimState::kRequested || c.state == ClaimState::kLaunched; }

}  // namespace

bool StaticPools::stays(const Claim& c) const {
  return (is_awaited(c) || c.state == ClaimState::kReady) && c.life.replaced_by.empty() && !facts_.doomed(c);
}

std::map<std::string, std::int64_t> StaticPools::replicas() const {
  std::map<std::string, std::int64_t> out;
  for (const auto& [name, pool] : tables_.pools) {
    if (pool.is_static()) out[name] = 0;
  }
  if (out.empty()) return out;
  for (const auto& [name, c] : tables_.claims) {
    const auto pool = out.find(c.pool);
    // A lost instance is replaced at once, within the pool's limit on nodes.
    if (pool != out.end() && stays(c)) ++pool->second;
  }
  return out;
}

void StaticPools::keep_replicas() {
  const auto have = replicas();
  if (have.empty() || !facts_.scales_somewhere()) return;
  auto in_use = facts_.usage();
  // The limit is per step: launches at the same time count, so that a step without new inputs launches nothing.
  std::int64_t launches = 0;
  std::map<std::string, std::int64_t> delayed;  // refused for an unknown reason: not replaced at once
  for (const auto& [name, c] : tables_.claims) {
    launches += c.requested == state_.now && c.for_uid.empty() ? 1 : 0;
    if (c.for_uid.empty() && c.retry_at && *c.retry_at > state_.now) ++delayed[c.pool];
  }
  for (const auto& [pool_name, count] : have) {
    const Pool& pool = *tables_.pools.find(pool_name);
    for (std::int64_t n = count + delayed[pool_name]; n < pool.replicas; ++n, ++launches) {
      if (launches >= options_.max_launches) {
        state_.more_launches = true;
        return;
      }
      const auto offer = offers_.cheapest_replica(pool, in_use[pool_name], nullptr);
      if (!offer) break;
      in_use[pool_name].add(*offer->type, 1);
      const std::int64_t number = tables_.counters.edit("claim") += 1;
      Claim c;
      c.pool = pool_name;
      c.type = offer->type->name;
      c.market = offer->offering.market;
      c.zone = offer->offering.zone;
      c.requested = c.changed = state_.now;
      c.reason = fmt::format("one of {} replicas of {}: {} {} is the cheapest at {} USD/h", pool.replicas, pool_name,
                             c.type, capacity_type_of(offer->offering), offer->per_hour.to_usd(2));
      c.group = pool.group;
      c.labels = offer->labels;
      c.reservation = offer->offering.reservation;
      claims_.launch(ClaimName(fmt::format("{}-{:05}", pool_name, number)), c, pool);
    }
  }
}

std::set<ClaimName> StaticPools::surplus_replicas(const std::vector<ClaimName>& candidates) const {
  auto beyond = replicas();
  for (auto& [name, count] : beyond) count -= tables_.pools.find(name)->replicas;
  // Nodes that are not ready yet end first: each is the newest once it is ready.
  for (const auto& [name, c] : tables_.claims) {
    const auto pool = beyond.find(c.pool);
    if (pool != beyond.end() && is_awaited(c) && stays(c)) --pool->second;
  }
  std::set<ClaimName> out;
  for (auto name = candidates.rbegin(); name != candidates.rend(); ++name) {
    const Claim& c = *tables_.claims.find(*name);
    const auto pool = beyond.find(c.pool);
    const NodeRow* node = facts_.node_of(c);
    if (pool == beyond.end() || pool->second <= 0 || c.state != ClaimState::kReady || !stays(c)) continue;
    if (node == nullptr || node->pods > 0) continue;
    out.insert(*name);
    --pool->second;
  }
  return out;
}

void StaticPools::explain_replicas(std::vector<std::string>& lines) const {
  const auto in_use = facts_.usage();
  for (const auto& [name, count] : replicas()) {
    const Pool& pool = *tables_.pools.find(name);
    if (count == pool.replicas) continue;
    std::string why = "the others are launched in the next step";
    if (count > pool.replicas) {
      why = "the surplus is terminated once empty";
    } else if (!facts_.scales_somewhere()) {
      why = "another autoscaler launches nodes here";
    } else {
      std::string missing;
      const auto used = in_use.find(name);
      if (!offers_.cheapest_replica(pool, used == in_use.end() ? Usage{} : used->second, &missing)) why = missing;
    }
    lines.push_back(fmt::format("NodePool {} has {} of {} replicas: {}", name, count, pool.replicas, why));
  }
}

}  // namespace qm::autoscaler
