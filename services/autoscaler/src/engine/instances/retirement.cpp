// Terminates instances: those that never started, those whose node left, and those that are not needed.
#include "instances/retirement.hpp"

#include <algorithm>

namespace qm::autoscaler {

void Retirement::join_nodes() {
  std::vector<ClaimName> up, left, started;
  for (const auto& [name, c] : tables_.claims) {
    const NodeRow* node = facts_.node_of(c);
    const bool serves = c.state == ClaimState::kReady || c.state == ClaimState::kDraining;
    const bool initialized = (c.state == ClaimState::kLaunched || (serves && !c.life.initialized)) && node != nullptr &&
                             !facts_.start_gap(c);
    if (initialized && serves) started.push_back(name);
    if (c.state == ClaimState::kLaunched && node != nullptr && (initialized || node->pods > 0)) up.push_back(name);
    if (serves && node == nullptr && !c.pool.empty()) left.push_back(name);
  }
  for (const auto& name : started) {
    tables_.claims.edit(name).life.initialized = true;
    claims_.mark_changed(name);
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
        if (c.changed + (c.rolled_back ? options_.roll_back_retry : options_.registration) <= state_.now)
          again.push_back(name);
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
    if (c.missing_since && c.state != ClaimState::kGone && *c.missing_since + options_.missing <= state_.now) {
      const NodeRow* node = facts_.node_of(c);
      // The kubelet of a node that is ready runs, whatever the cloud lists.
      if (node == nullptr || !node->ready) lost.push_back(name);
    }
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
      const std::string why = late_because(c);
      if (!c.life.initialized) remember_fault(c, why);
      claims_.terminate(name, why);
    }
  }
  for (const auto& name : again) {
    const Claim& c = *tables_.claims.find(name);
    const NodeRow* node = facts_.node_of(c);
    if (node == nullptr || node->pods == 0 || claims_.is_forced(c)) {
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
  for (const auto& [offering, outage] : tables_.blocked) {
    if (is_forgotten(outage, state_.now, options_.memory)) open.push_back(offering);
  }
  for (const auto& offering : open) tables_.blocked.erase(offering);

  std::vector<std::pair<std::string, std::string>> healed;
  for (const auto& [key, fault] : tables_.launch_faults) {
    if (fault.until <= state_.now) healed.push_back(key);
  }
  for (const auto& key : healed) tables_.launch_faults.erase(key);

  std::vector<NodeName> unknown;
  for (const auto& [name, node] : tables_.nodes) {
    const Instant until = std::max(node.since + options_.registration, node.taken_at.value_or(Instant{}));
    if (!node.known && until <= state_.now) unknown.push_back(name);
  }
  for (const auto& name : unknown) claims_.forget_node(name);
}

std::string Retirement::late_because(const Claim& c) const {
  const auto gap = facts_.node_of(c) == nullptr ? std::nullopt : facts_.start_gap(c);
  return gap ? fmt::format("its node did not become ready in time: {}", gap->message)
             : "its node did not register in time";
}

void Retirement::remember_fault(const Claim& c, const std::string& reason) {
  const auto key = std::pair(c.type, c.life.image);
  const LaunchFault* known = tables_.launch_faults.find(key);
  tables_.launch_faults.insert(key,
                               {(known == nullptr ? 0 : known->count) + 1, reason, state_.now + options_.fault_memory});
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
    } else if (!node.taken_at && draining && node.pods > 0 && !node.broken && !c.evicts_pods()) {
      // A workload was bound between the request and the cordon: the node stays.
      claims_.keep(name, "work landed before it was cordoned");
    }
  }
}

void Retirement::retire_surplus() {
  std::vector<ClaimName> candidates;
  for (const auto& [name, c] : tables_.claims) {
    if (!c.pool.empty() && c.state == ClaimState::kReady) candidates.push_back(name);
  }
  const auto planned = facts_.planned();
  const auto surplus = static_pools_.surplus_replicas(candidates);
  for (const auto& name : candidates) {
    const Claim& c = *tables_.claims.find(name);
    const NodeRow& node = *facts_.node_of(c);  // join_nodes handled claims without a node
    if (node.taken_at) continue;
    const Pool* pool = tables_.pools.find(c.pool);
    const bool over = pool == nullptr || (!pool->manual && surplus.contains(name));
    const bool idle = node.pods == 0 && facts_.scales_somewhere() && over && !planned.contains(name);
    if (!idle && !node.broken) continue;
    const std::string reason = node.broken ? "Unhealthy" : "Empty";
    claims_.drain(c.node, reason, std::nullopt);
    claims_.enter(name, ClaimState::kDraining, reason);
  }
}

}  // namespace qm::autoscaler
