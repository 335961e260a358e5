// Terminates instances: those that never started, those whose node left, and those that are not needed.
#include "qm/autoscaler/engine.hpp"
#include "qm/base/assert.hpp"

#include <set>

namespace qm::autoscaler {

// The node of the claim's instance, once placement has published it. Names of instances are reused: the instance id
// decides.
const NodeRow* Engine::node_of(const Claim& claim) const {
  const NodeRow* node = claim.node.empty() ? nullptr : tables_.nodes.find(claim.node);
  if (node == nullptr || !node->known) return nullptr;
  return node->instance.empty() || node->instance == claim.instance ? node : nullptr;
}

void Engine::enter(const ClaimName& name, ClaimState state, const std::string& reason) {
  Claim& c = tables_.claims.edit(name);
  c.state = state;
  c.changed = now_;
  c.reason = reason;
  mark_changed(name);
}

void Engine::forget_claim(const ClaimName& name) {
  out_.instances.push_back({name, *tables_.claims.find(name), true});
  tables_.claims.erase(name);
}

void Engine::terminate(const ClaimName& name, const std::string& reason) {
  const NodeRow* node = node_of(*tables_.claims.find(name));
  QM_ASSERT(node == nullptr || node->pods == 0 || (node->taken_at && *node->taken_at <= now_),
            "claim {} is terminated with {} pods on its node", name, node->pods);
  enter(name, ClaimState::kTerminating, reason);
  const Claim& c = *tables_.claims.find(name);
  out_.terminations.push_back({name, c.instance, now_, c.group});
}

void Engine::drain(const NodeName& name, const std::string& reason, std::optional<Instant> deadline) {
  const NodeRow& known = *tables_.nodes.find(name);
  if (known.drain_requested && known.drain_reason == reason) return;
  NodeRow& node = tables_.nodes.edit(name);
  node.drain_requested = true;
  node.drain_confirmed = false;
  node.drain_reason = reason;
  out_.drains.push_back({name, reason, deadline, false, now_});
}

void Engine::end_drain(const NodeName& name) {
  NodeRow& node = tables_.nodes.edit(name);
  out_.drains.push_back({name, node.drain_reason, std::nullopt, true, now_});
  node.drain_requested = node.drain_confirmed = false;
}

// Events about claims and nodes arrive independently, in any order: every step joins them from the tables.
void Engine::join_nodes() {
  std::vector<ClaimName> up, left;
  for (const auto& [name, c] : tables_.claims) {
    const NodeRow* node = node_of(c);
    if (c.state == ClaimState::kLaunched && node != nullptr && (node->ready || node->pods > 0)) up.push_back(name);
    const bool served = c.state == ClaimState::kReady || c.state == ClaimState::kDraining;
    if (served && node == nullptr && !c.pool.empty()) left.push_back(name);
  }
  for (const auto& name : up) enter(name, ClaimState::kReady, tables_.claims.find(name)->reason);
  // An incorrect list of nodes must not terminate a fleet: a node may reappear within the registration time of a new
  // one.
  for (const auto& name : left) enter(name, ClaimState::kLaunched, "its node was deleted");
}

void Engine::time_out() {
  std::vector<ClaimName> late, again, lost, over;
  for (const auto& [name, c] : tables_.claims) {
    const bool ours = !c.pool.empty();
    switch (c.state) {
      case ClaimState::kRequested:
      case ClaimState::kLaunched:
        if (ours && c.changed + options_.registration <= now_) late.push_back(name);
        break;
      case ClaimState::kTerminating:
        if (c.changed + options_.registration <= now_) again.push_back(name);
        break;
      case ClaimState::kFailed:
        if (c.changed + options_.failed_memory <= now_) over.push_back(name);
        break;
      case ClaimState::kGone:
        if (c.changed + options_.gone_memory <= now_) over.push_back(name);
        break;
      case ClaimState::kReady:
      case ClaimState::kDraining:
        break;
    }
    if (c.missing_since && c.state != ClaimState::kGone && *c.missing_since + options_.missing <= now_)
      lost.push_back(name);
  }
  for (const auto& name : late) {
    // Without an instance the launch is still being retried; if it succeeds later, the claim is used again.
    // A group retries for ever, so its size is reduced by one.
    const Claim& c = *tables_.claims.find(name);
    if (c.instance.empty() && !c.group.empty()) {
      give_up(name, fmt::format("the group {} did not launch it in time", c.group));
    } else if (c.instance.empty()) {
      enter(name, ClaimState::kFailed, "not launched in time");
    } else {
      terminate(name, "its node did not register in time");
    }
  }
  for (const auto& name : again) {
    const Claim& c = *tables_.claims.find(name);
    const NodeRow* node = node_of(c);
    if (node == nullptr || node->pods == 0 || (node->taken_at && *node->taken_at <= now_)) {
      terminate(name, c.reason);
    } else {
      keep(name, "it was not terminated, and work landed on it");
    }
  }
  for (const auto& name : lost) {
    enter(name, ClaimState::kGone, "the cloud does not list it anymore");
    Claim& c = tables_.claims.edit(name);
    c.stopped = c.missing_since;
  }
  for (const auto& name : over) forget_claim(name);

  std::vector<Offering> open;
  for (const auto& [offering, until] : tables_.blocked) {
    if (until <= now_) open.push_back(offering);
  }
  for (const auto& offering : open) tables_.blocked.erase(offering);

  std::vector<NodeName> unknown;
  for (const auto& [name, node] : tables_.nodes) {
    const Instant until = std::max(node.since + options_.registration, node.taken_at.value_or(Instant{}));
    if (!node.known && until <= now_) unknown.push_back(name);
  }
  for (const auto& name : unknown) forget_node(name);
}

// Reverts a drain: the instance stays in service.
void Engine::keep(const ClaimName& name, const std::string& reason) {
  const NodeName node = tables_.claims.find(name)->node;
  if (tables_.nodes.find(node)->drain_requested) end_drain(node);
  enter(name, ClaimState::kReady, reason);
}

// A draining node is terminated once its drain is confirmed, or stays in service if a workload was bound to it before.
void Engine::end_drained() {
  std::vector<ClaimName> candidates;
  for (const auto& [name, c] : tables_.claims) {
    if (!c.pool.empty() && (c.state == ClaimState::kReady || c.state == ClaimState::kDraining))
      candidates.push_back(name);
  }
  for (const auto& name : candidates) {
    const Claim& c = *tables_.claims.find(name);
    const NodeRow& node = *node_of(c);  // join_nodes handled claims without a node
    const bool draining = c.state == ClaimState::kDraining;
    // A node that is not ready is not published as cordoned; placement has had enough time.
    const bool confirmed = node.drain_confirmed || (!node.ready && draining && c.changed + options_.settle <= now_);
    if (node.drain_requested && confirmed && node.pods == 0) {
      terminate(name, node.taken_at ? "spot capacity is reclaimed and its pods have ended" : node.drain_reason);
    } else if (!node.taken_at && draining && node.pods > 0 && !node.broken) {
      // A workload was bound between the request and the cordon: the node stays.
      keep(name, "work landed before it was cordoned");
    }
  }
}

void Engine::retire_empty() {
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
  const auto surplus = surplus_replicas(candidates);
  for (const auto& name : candidates) {
    const Claim& c = *tables_.claims.find(name);
    const NodeRow& node = *node_of(c);  // join_nodes handled claims without a node
    if (node.taken_at) continue;
    const Pool* pool = tables_.pools.find(c.pool);
    const bool over = pool == nullptr || (pool->is_static() ? surplus.contains(name)
                                                            : pool->consolidate_empty && node.empty_since &&
                                                                  *node.empty_since + pool->consolidate_after <= now_);
    const bool idle = node.pods == 0 && scales_somewhere() && !wanted.contains(name) && over;
    if (!idle && !node.broken) continue;
    const std::string reason = node.broken ? "Unhealthy" : "Empty";
    drain(c.node, reason, std::nullopt);
    enter(name, ClaimState::kDraining, reason);
  }
}

}  // namespace qm::autoscaler
