// The life of a claim.
#include "instances/claims.hpp"

#include "qm/base/assert.hpp"

#include <set>

namespace qm::autoscaler {

void Claims::enter(const ClaimName& name, ClaimState state, const std::string& reason) {
  Claim& c = tables_.claims.edit(name);
  c.state = state;
  c.changed = state_.now;
  c.reason = reason;
  if (state == ClaimState::kReady) {  // no disruption is in progress any more
    c.life.disruption.clear();
    c.life.deadline.reset();
    c.life.replaced_by = ClaimName();
    if (!c.life.initialized) c.life.initialized = !facts_.start_gap(c);
  }
  mark_changed(name);
}

void Claims::forget_claim(const ClaimName& name) {
  state_.out.instances.push_back({name, *tables_.claims.find(name), true});
  tables_.claims.erase(name);
}

NodeRow& Claims::mark(const NodeName& node) {
  const bool fresh = !tables_.nodes.contains(node);
  NodeRow& row = tables_.nodes.edit(node);
  if (fresh) row.since = state_.now;
  return row;
}

void Claims::forget_node(const NodeName& name) {
  const NodeRow* node = tables_.nodes.find(name);
  if (node == nullptr) return;
  if (node->drain_requested) end_drain(name);
  tables_.nodes.erase(name);
}

void Claims::launch(const ClaimName& name, const Claim& c, const Pool& pool) {
  Claim row = c;
  row.life.template_hash = pool.lifecycle.template_hash;
  row.life.expire_after = pool.lifecycle.expire_after;
  row.life.termination_grace = pool.lifecycle.termination_grace;
  if (row.life.replaces.empty()) row.life.resources = requested_resources(row);
  if (c.group.empty()) state_.out.launches.push_back({name, row, pool});  // else the group grows by it
  tables_.claims.insert(name, std::move(row));
  mark_changed(name);
}

// Extended resources that the pods of the gang request; without a gang the GPUs of the type.
std::vector<std::string> Claims::requested_resources(const Claim& c) const {
  std::set<std::string> names;
  const DemandUpdated::Item* item = tables_.demand.find(c.for_uid);
  const InstanceType* type = facts_.type(c.type);
  bool gpus = item == nullptr;
  for (const PodSet& set : item == nullptr ? std::vector<PodSet>{} : item->pod_sets) {
    gpus |= set.shape.gpu.whole > 0;
    for (const auto& [resource, amount] : set.shape.extended) {
      const bool of_type = type != nullptr && type->extended.contains(resource);
      if (amount > 0 && of_type && resource.find('/') != std::string::npos) names.insert(resource);
    }
  }
  if (gpus && type != nullptr && type->gpus > 0) names.emplace(words::kGpuResource);
  return {names.begin(), names.end()};
}

bool Claims::is_forced(const Claim& c) const {
  const NodeRow* node = facts_.node_of(c);
  return (node != nullptr && node->taken_at && *node->taken_at <= state_.now) ||
         (c.life.deadline && *c.life.deadline <= state_.now);
}

void Claims::keep(const ClaimName& name, const std::string& reason) {
  const NodeName node = tables_.claims.find(name)->node;
  if (tables_.nodes.find(node)->drain_requested) end_drain(node);
  enter(name, ClaimState::kReady, reason);
}

void Claims::terminate(const ClaimName& name, const std::string& reason) {
  const NodeRow* node = facts_.node_of(*tables_.claims.find(name));
  QM_ASSERT(node == nullptr || node->pods == 0 || is_forced(*tables_.claims.find(name)),
            "claim {} is terminated with {} pods on its node", name, node->pods);
  enter(name, ClaimState::kTerminating, reason);
  const Claim& c = *tables_.claims.find(name);
  state_.out.terminations.push_back({name, c.instance, state_.now, c.group});
}

void Claims::drain(const NodeName& name, const std::string& reason, std::optional<Instant> deadline) {
  const NodeRow& known = *tables_.nodes.find(name);
  if (known.drain_requested && known.drain_reason == reason) return;
  NodeRow& node = tables_.nodes.edit(name);
  node.drain_requested = true;
  node.drain_confirmed = false;
  node.drain_reason = reason;
  state_.out.drains.push_back({name, reason, deadline, false, state_.now});
}

void Claims::end_drain(const NodeName& name) {
  NodeRow& node = tables_.nodes.edit(name);
  state_.out.drains.push_back({name, node.drain_reason, std::nullopt, true, state_.now});
  node.drain_requested = node.drain_confirmed = false;
}

void Claims::give_up(const ClaimName& name, const std::string& reason) {
  const Claim& c = *tables_.claims.find(name);
  const Offering offering{c.type, c.zone, c.market, c.group};
  const Instant until = state_.now + options_.capacity_memory;
  if (const Instant* known = tables_.blocked.find(offering); known == nullptr || *known != until) {
    tables_.blocked.insert(offering, until);
  }
  enter(name, ClaimState::kFailed, reason);
}

}  // namespace qm::autoscaler
