// Machines that go: those that never came up, and those that nobody needs.
#include "qm/autoscaler/engine.hpp"
#include "qm/base/assert.hpp"

namespace qm::autoscaler {

void Engine::terminate(const ClaimName& name, const std::string& reason) {
  Claim& c = tables_.claims.edit(name);
  const NodeRow* node = tables_.nodes.find(c.node);
  QM_ASSERT(node == nullptr || node->pods == 0 || (node->taken_at && *node->taken_at <= now_),
            "claim {} is terminated with {} pods on its node", name, node->pods);
  c.state = ClaimState::kTerminating;
  c.reason = reason;
  c.changed = now_;
  say(name);
  out_.terminations.push_back({name, c.instance});
}

void Engine::drain(const NodeName& name, const std::string& reason, std::optional<Instant> deadline) {
  NodeRow& node = tables_.nodes.edit(name);
  if (node.drain_asked && node.drain_reason == reason) return;
  node.drain_asked = true;
  node.drain_reason = reason;
  out_.drains.push_back({name, reason, deadline, false});
}

void Engine::time_out_claims() {
  std::vector<ClaimName> late, over;
  for (const auto& [name, c] : tables_.claims) {
    const bool waiting = c.state == ClaimState::kRequested || c.state == ClaimState::kLaunched;
    if (!c.pool.empty() && waiting && c.requested + options_.registration <= now_) late.push_back(name);
    if (c.state == ClaimState::kFailed && c.changed + options_.failed_memory <= now_) over.push_back(name);
  }
  for (const auto& name : late) {
    const Claim& c = *tables_.claims.find(name);
    if (c.instance.empty()) {
      // The launch intent is still being tried. Should it succeed after this, the instance is a stray and goes.
      Claim& row = tables_.claims.edit(name);
      row.state = ClaimState::kFailed;
      row.reason = "not launched in time";
      row.changed = now_;
      say(name);
    } else {
      terminate(name, "its node did not register in time");
    }
  }
  for (const auto& name : over) tables_.claims.erase(name);
  std::vector<std::pair<std::string, Market>> open;
  for (const auto& [offer, until] : tables_.blocked) {
    if (until <= now_) open.push_back(offer);
  }
  for (const auto& offer : open) tables_.blocked.erase(offer);
}

void Engine::retire_empty() {
  std::vector<std::pair<ClaimName, NodeName>> candidates;
  for (const auto& [name, c] : tables_.claims) {
    if (!c.pool.empty() && (c.state == ClaimState::kReady || c.state == ClaimState::kDraining)) candidates.emplace_back(name, c.node);
  }
  for (const auto& [name, node_name] : candidates) {
    const NodeRow* node = tables_.nodes.find(node_name);
    const Claim& c = *tables_.claims.find(name);
    const Pool* pool = tables_.pools.find(c.pool);
    if (node == nullptr) continue;
    if (node->drain_asked && node->cordoned && node->pods == 0) {
      terminate(name, node->taken_at ? "spot capacity is taken and its work is gone" : node->drain_reason);
      continue;
    }
    if (c.state == ClaimState::kDraining && node->pods > 0 && !node->taken_at && !node->broken) {
      // Work landed between our question and the cordon: it stays.
      tables_.nodes.edit(node_name).drain_asked = false;
      out_.drains.push_back({node_name, node->drain_reason, std::nullopt, true});
      Claim& row = tables_.claims.edit(name);
      row.state = ClaimState::kReady;
      row.changed = now_;
      say(name);
      continue;
    }
    if (c.state != ClaimState::kReady || node->pods > 0 || node->taken_at) continue;
    const bool wanted = !c.for_uid.empty() && tables_.demand.contains(c.for_uid) && c.changed + options_.settle > now_;
    const bool idle = pool == nullptr || (pool->consolidate_empty && node->empty_since &&
                                          *node->empty_since + pool->consolidate_after <= now_);
    if (!node->broken && (wanted || !idle)) continue;
    drain(node_name, node->broken ? "Unhealthy" : "Empty", std::nullopt);
    Claim& row = tables_.claims.edit(name);
    row.state = ClaimState::kDraining;
    row.changed = now_;
    say(name);
  }
}

}  // namespace qm::autoscaler
