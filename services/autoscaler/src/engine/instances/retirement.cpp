// Terminates instances: those that never started, those whose node left, and those that are not needed.
#include "instances/retirement.hpp"

#include <algorithm>

namespace qm::autoscaler {

void Retirement::join_nodes() {
  std::vector<ClaimName> up, left;
  for (const auto& [name, c] : tables_.claims) {
    const NodeRow* node = facts_.node_of(c);
    if (c.state == ClaimState::kLaunched && node != nullptr && (node->ready || node->pods > 0)) up.push_back(name);
    const bool served = c.state == ClaimState::kReady || c.state == ClaimState::kDraining;
    if (served && node == nullptr && !c.pool.empty()) left.push_back(name);
  }
  for (const auto& name : up) claims_.enter(name, ClaimState::kReady, tables_.claims.find(name)->reason);
  // An incorrect list of nodes must not terminate a fleet: a node may reappear within the registration time of a new
  // one.
  for (const auto& name : left) claims_.enter(name, ClaimState::kLaunched, "its node was deleted");
}

// Without its pool the size of the group is not set anymore.
bool Retirement::is_owed(const Claim& c) const { return c.owed && facts_.pool_of_group(c.group) != nullptr; }

void Retirement::time_out() {
  std::vector<ClaimName> late, again, lost, over;
  for (const auto& [name, c] : tables_.claims) {
    const bool ours = !c.pool.empty();
    switch (c.state) {
      case ClaimState::kRequested:
      case ClaimState::kLaunched:
        if (ours && c.changed + options_.registration <= state_.now) late.push_back(name);
        break;
      case ClaimState::kTerminating:
        if (c.changed + options_.registration <= state_.now) again.push_back(name);
        break;
      case ClaimState::kFailed:
        if (c.changed + options_.failed_memory <= state_.now && !is_owed(c)) over.push_back(name);
        break;
      case ClaimState::kGone:
        if (c.changed + options_.gone_memory <= state_.now) over.push_back(name);
        break;
      case ClaimState::kReady:
      case ClaimState::kDraining:
        break;
    }
    if (c.missing_since && c.state != ClaimState::kGone && *c.missing_since + options_.missing <= state_.now)
      lost.push_back(name);
  }
  for (const auto& name : late) {
    // Without an instance the launch is still being retried; if it succeeds later, the claim is used again.
    // A group retries for ever; it becomes smaller once the cloud confirms that the launch fails.
    const Claim& c = *tables_.claims.find(name);
    if (c.instance.empty() && !c.group.empty()) {
      claims_.give_up(name, fmt::format("the group {} did not launch it in time", c.group));
      tables_.claims.edit(name).owed = true;
    } else if (c.instance.empty()) {
      claims_.enter(name, ClaimState::kFailed, "not launched in time");
    } else {
      claims_.terminate(name, "its node did not register in time");
    }
  }
  for (const auto& name : again) {
    const Claim& c = *tables_.claims.find(name);
    const NodeRow* node = facts_.node_of(c);
    if (node == nullptr || node->pods == 0 || (node->taken_at && *node->taken_at <= state_.now)) {
      claims_.terminate(name, c.reason);
    } else {
      claims_.keep(name, "it was not terminated, and work landed on it");
    }
  }
  for (const auto& name : lost) {
    claims_.enter(name, ClaimState::kGone, "the cloud does not list it anymore");
    Claim& c = tables_.claims.edit(name);
    c.stopped = c.missing_since;
  }
  for (const auto& name : over) claims_.forget_claim(name);

  std::vector<Offering> open;
  for (const auto& [offering, until] : tables_.blocked) {
    if (until <= state_.now) open.push_back(offering);
  }
  for (const auto& offering : open) tables_.blocked.erase(offering);

  std::vector<NodeName> unknown;
  for (const auto& [name, node] : tables_.nodes) {
    const Instant until = std::max(node.since + options_.registration, node.taken_at.value_or(Instant{}));
    if (!node.known && until <= state_.now) unknown.push_back(name);
  }
  for (const auto& name : unknown) claims_.forget_node(name);
}

void Retirement::end_drained() {
  std::vector<ClaimName> candidates;
  for (const auto& [name, c] : tables_.claims) {
    if (!c.pool.empty() && (c.state == ClaimState::kReady || c.state == ClaimState::kDraining))
      candidates.push_back(name);
  }
  for (const auto& name : candidates) {
    const Claim& c = *tables_.claims.find(name);
    const NodeRow& node = *facts_.node_of(c);  // join_nodes handled claims without a node
    const bool draining = c.state == ClaimState::kDraining;
    // A node that is not ready is not published as cordoned; placement has had enough time.
    const bool confirmed =
        node.drain_confirmed || (!node.ready && draining && c.changed + options_.settle <= state_.now);
    if (node.drain_requested && confirmed && node.pods == 0) {
      claims_.terminate(name, node.taken_at ? "spot capacity is reclaimed and its pods have ended" : node.drain_reason);
    } else if (!node.taken_at && draining && node.pods > 0 && !node.broken) {
      // A workload was bound between the request and the cordon: the node stays.
      claims_.keep(name, "work landed before it was cordoned");
    }
  }
}

std::int64_t Retirement::allowed_drains(const Pool& pool) const {
  std::int64_t nodes = 0, disrupted = 0;
  for (const auto& [name, c] : tables_.claims) {
    if (c.pool != pool.name || (c.state != ClaimState::kReady && c.state != ClaimState::kDraining)) continue;
    const NodeRow* node = facts_.node_of(c);
    ++nodes;
    if (c.state == ClaimState::kDraining || node == nullptr || !node->ready) ++disrupted;
  }
  return facts_.budget(pool, nodes).nodes - disrupted;
}

void Retirement::retire_empty() {
  // An instance that waits for the rest of its gang is empty but needed.
  std::set<ClaimName> wanted;
  for (const auto& [uid, plan] : tables_.plans) {
    if (plan.promised_attempt > 0 && tables_.demand.contains(uid))
      wanted.insert(plan.claims.begin(), plan.claims.end());
  }
  std::vector<ClaimName> candidates;
  for (const auto& [name, c] : tables_.claims) {
    if (!c.pool.empty() && c.state == ClaimState::kReady) candidates.push_back(name);
  }
  std::map<std::string, std::int64_t> drains;  // left, by pool; budgets are read only for pools with an empty node
  for (const auto& name : candidates) {
    const Claim& c = *tables_.claims.find(name);
    const Pool* pool = tables_.pools.find(c.pool);
    if (pool != nullptr && facts_.node_of(c)->empty_since && !drains.contains(c.pool))
      drains.emplace(c.pool, allowed_drains(*pool));
  }
  const auto delayed_until = ScaleDownDelay(state_).until();
  const bool delayed = delayed_until && state_.now < *delayed_until;
  const auto surplus = static_pools_.surplus_replicas(candidates);
  for (const auto& name : candidates) {
    const Claim& c = *tables_.claims.find(name);
    const NodeRow& node = *facts_.node_of(c);  // join_nodes handled claims without a node
    if (node.taken_at) continue;
    const Pool* pool = tables_.pools.find(c.pool);
    const bool over =
        pool == nullptr || (pool->is_static() ? surplus.contains(name)
                                              : pool->consolidate_empty && node.empty_since &&
                                                    *node.empty_since + idle_time(*pool, node) <= state_.now);
    const bool manual = pool != nullptr && pool->manual;
    const bool idle =
        !manual && node.pods == 0 && facts_.scales_somewhere() && !wanted.contains(name) && over && !delayed;
    if (!idle && !node.broken) continue;
    // Neither a broken node nor one without a pool is disrupted voluntarily, and a static pool has its own number.
    const bool budgeted = !node.broken && pool != nullptr && !pool->is_static();
    if (budgeted && drains[c.pool]-- <= 0) continue;
    const std::string reason = node.broken ? "Unhealthy" : "Empty";
    claims_.drain(c.node, reason, std::nullopt);
    claims_.enter(name, ClaimState::kDraining, reason);
  }
}

}  // namespace qm::autoscaler
