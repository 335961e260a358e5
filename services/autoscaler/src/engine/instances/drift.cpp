// Drift of claims from their NodePool and its class.
#include "instances/drift.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace qm::autoscaler {
namespace {

template <class List, class Value>
bool lists(const List& list, const Value& value) {
  return std::ranges::find(list, value) != list.end();
}

/// "KEY VALUE" of the first label whose value the NodePool does not allow any more; empty = all are allowed.
std::string requirement_gap(const Claim& c, const Pool& pool) {
  if (!lists(pool.instance_types, c.type)) return fmt::format("{} {}", words::kInstanceType, c.type);
  if (!c.reservation.empty() && !pool.reserved) return fmt::format("{} reserved", words::kCapacityType);
  if (c.reservation.empty() && !lists(pool.markets, c.market))
    return fmt::format("{} {}", words::kCapacityType, name_of(c.market));
  const bool zone = c.zone.empty() || (pool.zones.empty() ? !lists(pool.not_zones, c.zone) : lists(pool.zones, c.zone));
  if (!zone) return fmt::format("{} {}", words::kZone, c.zone);
  for (const Requirement& rule : pool.rules) {
    const auto value = c.labels.find(rule.key);
    if (value == c.labels.end() ? !rule.allows_absence() && !c.labels.empty() : !rule.has(value->second))
      return fmt::format("{} {}", rule.key, value == c.labels.end() ? "(not set)" : value->second);
  }
  return {};
}

}  // namespace

DriftFinding drift_of(const Claim& c, const Pool& pool, bool type_exists) {
  const PoolLifecycle& now = pool.lifecycle;
  const ClaimLifecycle& then = c.life;
  if (!pool.group.empty()) return {};  // the launch template of the group determines its instances
  if (!type_exists) return {"InstanceTypeNotFound", fmt::format("the catalog has no instance type {}", c.type)};
  if (!then.template_hash.empty() && !now.template_hash.empty() && then.template_hash != now.template_hash)
    return {"NodePoolDrifted", fmt::format("spec.template of NodePool {} has changed since the launch", pool.name)};
  if (pool.not_ready.empty()) {
    if (const auto gap = requirement_gap(c, pool); !gap.empty())
      return {"RequirementsDrifted", fmt::format("NodePool {} does not allow {} any more", pool.name, gap)};
  }
  const auto differs = [](const std::vector<std::string>& allowed, const std::string& value) {
    return !allowed.empty() && !value.empty() && !lists(allowed, value);
  };
  if (differs(now.images, then.image))
    return {"AMIDrift", fmt::format("image {} is not one of {}", then.image, fmt::join(now.images, ", "))};
  if (differs(now.subnets, then.subnet))
    return {"SubnetDrift", fmt::format("subnet {} is not one of {}", then.subnet, fmt::join(now.subnets, ", "))};
  if (!now.security_groups.empty() && !then.security_groups.empty() && now.security_groups != then.security_groups) {
    return {"SecurityGroupDrift", fmt::format("security groups {} are not {}", fmt::join(then.security_groups, ", "),
                                              fmt::join(now.security_groups, ", "))};
  }
  return {};
}

void Drift::update() {
  struct Change {
    ClaimName name;
    DriftFinding finding;
    std::string hash;
  };
  std::vector<Change> changes;
  for (const auto& [name, c] : tables_.claims) {
    const Pool* pool = tables_.pools.find(c.pool);
    const bool serves = c.state == ClaimState::kReady || c.state == ClaimState::kDraining;
    if (pool == nullptr || !serves) continue;
    auto finding = drift_of(c, *pool, facts_.type(c.type) != nullptr);
    // An instance of an earlier release, or one that was found in the cloud, has no hash: it gets the current one.
    const std::string hash = c.life.template_hash.empty() ? pool->lifecycle.template_hash : c.life.template_hash;
    if (finding.reason == c.life.drift && finding.message == c.life.drift_message && hash == c.life.template_hash)
      continue;
    changes.push_back({name, std::move(finding), hash});
  }
  for (auto& [name, finding, hash] : changes) {
    const Pool* pool = tables_.pools.find(tables_.claims.find(name)->pool);
    ClaimLifecycle& life = tables_.claims.edit(name).life;
    if (finding.reason.empty()) {
      life.drifted_since.reset();
    } else if (life.drift.empty()) {
      life.drifted_since = state_.now;
    }
    if (finding.reason != life.drift) claims_.mark_changed(name);
    life.drift = std::move(finding.reason);
    life.drift_message = std::move(finding.message);
    if (life.template_hash.empty()) {
      life.expire_after = pool->lifecycle.expire_after;
      life.termination_grace = pool->lifecycle.termination_grace;
    }
    life.template_hash = hash;
  }
}

}  // namespace qm::autoscaler
