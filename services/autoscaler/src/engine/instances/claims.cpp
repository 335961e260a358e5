// The life of a claim.
#include "instances/claims.hpp"

#include "offers/offer.hpp"
#include "qm/base/assert.hpp"

#include <set>

namespace qm::autoscaler {

namespace {

/// The offerings that are held after a refusal. An empty zone is the choice of the cloud.
std::vector<Offering> refused_with(const Offering& o, Refusal refusal) {
  const auto held = held_with(o);
  switch (refusal) {
    case Refusal::kType:
      return {held[1]};
    case Refusal::kZone:
      return {o.zone.empty() ? held[0] : held[2]};
    case Refusal::kMarket:
      return {held[3]};
    case Refusal::kAccount: {
      Offering other = held[3];
      other.market = o.market == Market::kSpot ? Market::kOnDemand : Market::kSpot;
      return {held[3], other};
    }
    default:
      return {held[0]};
  }
}

}  // namespace

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
  const Claim& claim = *tables_.claims.find(name);
  if (claim.market == Market::kSpot && claim.launched) {
    checkpoint::Hazard& hazard = tables_.hazards.edit({claim.type, claim.zone});
    hazard.interruptions += claim.interrupted ? 1 : 0;
    hazard.exposure += claim.stopped.value_or(state_.now) - *claim.launched;
  }
  state_.out.instances.push_back({name, claim, true});
  tables_.claims.erase(name);
}

NodeRow& Claims::mark(const NodeName& node) {
  const bool fresh = !tables_.nodes.contains(node);
  NodeRow& row = tables_.nodes.edit(node);
  if (fresh) row.since = state_.now;
  return row;
}

void Claims::note(const NodeName& name, NoticeKind kind, Instant at) {
  const NodeRow* known = tables_.nodes.find(name);
  if (kind == NoticeKind::kRebalance) {
    if (known == nullptr || !known->risk_since) mark(name).risk_since = at;
    return;
  }
  const bool noted = known != nullptr && known->taken_at.has_value();
  if (noted && (known->notice == kind || *known->taken_at <= at)) return;
  NodeRow& node = mark(name);
  node.taken_at = at;
  node.notice = kind;
}

void Claims::forget_node(const NodeName& name) {
  const NodeRow* node = tables_.nodes.find(name);
  if (node == nullptr) return;
  if (node->drain_requested) end_drain(name);
  tables_.nodes.erase(name);
}

void Claims::launch(const ClaimName& name, const Claim& c, const Pool& pool, std::vector<LaunchOption> others) {
  Claim row = c;
  row.zone_open = !others.empty();
  row.life.template_hash = pool.lifecycle.template_hash;
  row.life.expire_after = pool.lifecycle.expire_after;
  row.life.termination_grace = pool.lifecycle.termination_grace;
  if (row.life.replaces.empty() && row.life.resources.empty()) row.life.resources = resources_of(row);
  if (c.group.empty())
    state_.out.launches.push_back({name, row, pool, std::move(others)});  // else the group grows by it
  tables_.claims.insert(name, std::move(row));
  mark_changed(name);
}

// Of the pods of its gang; without a gang the GPUs of the type.
std::vector<std::string> Claims::resources_of(const Claim& c) const {
  const DemandUpdated::Item* item = tables_.demand.find(c.for_uid);
  const InstanceType* type = facts_.type(c.type);
  if (type == nullptr) return {};
  if (item != nullptr) return requested_resources(item->pod_sets, *type);
  return type->gpus > 0 ? std::vector{std::string(words::kGpuResource)} : std::vector<std::string>{};
}

std::vector<std::string> requested_resources(const std::vector<PodSet>& pods, const InstanceType& type) {
  std::set<std::string> names;
  for (const PodSet& set : pods) {
    if (set.shape.gpu.whole > 0 && type.gpus > 0) names.emplace(words::kGpuResource);
    for (const auto& [resource, amount] : set.shape.extended) {
      if (amount > 0 && type.extended.contains(resource) && resource.find('/') != std::string::npos)
        names.insert(resource);
    }
  }
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

void Claims::give_up(const ClaimName& name, const std::string& reason, Refusal refusal) {
  const Claim& c = *tables_.claims.find(name);
  if (refusal == Refusal::kLaunch) {
    enter(name, ClaimState::kFailed, reason);
    tables_.claims.edit(name).retry_at = state_.now + options_.launch_retry;
    return;
  }
  hold({c.type, c.zone, c.market, c.group, c.reservation}, refusal);
  enter(name, ClaimState::kFailed, reason);
}

void Claims::hold(const Offering& refused, Refusal refusal) {
  for (const Offering& offering : refused_with(refused, refusal)) {
    const Outage* known = tables_.blocked.find(offering);
    const Outage before = known == nullptr ? Outage{} : *known;
    const Outage after = refusal == Refusal::kOffering ? after_hold(before, state_.now, options_.refused_hold)
                                                       : after_refusal(before, state_.now, options_.memory);
    if (known == nullptr || after != before) tables_.blocked.insert(offering, after);
  }
}

void Claims::settle(const ClaimName& name, const std::string& type, const std::string& zone) {
  Claim& c = tables_.claims.edit(name);
  if (!type.empty()) c.type = type;
  if (!zone.empty()) c.zone = zone;
  c.zone_open = false;
  note_launch(c);
}

void Claims::note_launch(const Claim& c) {
  if (!c.group.empty()) return;
  for (const Offering& offering : held_with({c.type, c.zone, c.market, {}, c.reservation})) {
    const Outage* known = tables_.blocked.find(offering);
    // Only a request after the refusal shows that the outage is over: members of one gang are answered one by one.
    if (known == nullptr || c.requested <= known->last) continue;
    if (const Outage after = after_launch(*known, state_.now, options_.memory); after != *known)
      tables_.blocked.insert(offering, after);
  }
}

void Claims::roll_back(const ClaimName& name, const std::string& reason) {
  tables_.claims.edit(name).rolled_back = true;
  const Claim& c = *tables_.claims.find(name);
  // Placement may bind a pod to a node that is ready: it is drained first.
  if (const NodeRow* node = facts_.node_of(c); c.state == ClaimState::kReady && node != nullptr) {
    if (!node->drain_requested) drain(c.node, "GangRolledBack", std::nullopt);  // else of a spot notice
    return enter(name, ClaimState::kDraining, reason);
  }
  if (!c.instance.empty()) return terminate(name, reason);
  enter(name, ClaimState::kFailed, reason);
  state_.out.terminations.push_back({name, InstanceId(), state_.now, {}});  // its NodeClaim
}

}  // namespace qm::autoscaler
