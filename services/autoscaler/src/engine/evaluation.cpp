#include "evaluation.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::autoscaler {

void Evaluation::run() {
  state_.overlays.clear();
  for (const auto& [name, overlay] : state_.tables.overlays) state_.overlays.push_back(overlay);
  state_.overlays = ordered(std::move(state_.overlays)).accepted;
  parts_.retirement.join_nodes();
  parts_.retirement.time_out();
  parts_.spot.answer_notices();
  parts_.spot.answer_saves();
  parts_.spot.close_orders();
  parts_.retirement.end_drained();
  parts_.drift.update();
  parts_.disruptions.follow_replacements();
  parts_.static_pools.keep_replicas();
  parts_.launches.cover_demand();
  parts_.headroom.keep_buffers();
  parts_.retirement.retire_surplus();
  parts_.disruptions.disrupt();
  parts_.disruptions.empty_nodes();
  // Again: a replica, or a node of a buffer, may be disrupted.
  parts_.static_pools.keep_replicas();
  parts_.headroom.keep_buffers();
  parts_.groups.size_groups();
  for (const auto& name : state_.changed_claims) {
    if (const Claim* row = state_.tables.claims.find(name)) state_.out.instances.push_back({name, *row, false});
  }
  check_laws();
  state_.out.wake_at = next_timer();
}

std::optional<Instant> Evaluation::next_timer() const {
  std::optional<Instant> next;
  const auto consider = [&](Instant t) {
    if (t > state_.now && (!next || t < *next)) next = t;
  };
  for (const auto& [name, c] : state_.tables.claims) {
    if (c.missing_since) consider(*c.missing_since + state_.options.missing);
    switch (c.state) {
      case ClaimState::kRequested:
      case ClaimState::kLaunched:
        if (!c.pool.empty()) consider(c.changed + state_.options.registration);
        break;
      case ClaimState::kReady:
        break;  // see disruptions_at
      case ClaimState::kDraining:
        consider(c.changed + state_.options.settle);
        break;
      case ClaimState::kTerminating:
        consider(c.changed + state_.options.registration);
        break;
      case ClaimState::kFailed:
        consider(c.changed + state_.options.failed_memory);
        break;
      case ClaimState::kGone:
        consider(c.changed + state_.options.gone_memory);
        break;
    }
  }
  for (const auto& [uid, plan] : state_.tables.plans) {
    consider(plan.ready_by);
    consider(plan.not_before);
    for (const auto& name : plan.claims) {
      const Claim* c = state_.tables.claims.find(name);
      if (c != nullptr && c->state == ClaimState::kReady) consider(c->changed + state_.options.settle);
    }
  }
  for (const auto& [name, node] : state_.tables.nodes) {
    if (!node.known) consider(std::max(node.since + state_.options.registration, node.taken_at.value_or(Instant{})));
    if (node.taken_at) consider(*node.taken_at - state_.options.spot_margin);
  }
  for (const auto& [id, order] : state_.tables.orders) {
    if (order.outcome.empty()) consider(order.deadline);
  }
  for (const auto& [id, save] : state_.tables.saves) consider(save.until);
  for (const auto& [offering, until] : state_.tables.blocked) consider(until);
  for (const auto& [key, fault] : state_.tables.launch_faults) consider(fault.until);
  if (state_.disruptions_at) consider(*state_.disruptions_at);
  if (state_.more_replicas) consider(state_.now + std::chrono::seconds(1));
  return next;
}

void Evaluation::check_laws() const {
  std::map<InstanceId, ClaimName> by_instance;
  for (const auto& [name, c] : state_.tables.claims) {
    if (c.instance.empty() || c.state == ClaimState::kGone) continue;
    const auto [other, first] = by_instance.emplace(c.instance, name);
    QM_ASSERT(first, "instance {} belongs to claims {} and {}", c.instance, other->second, name);
  }
  std::set<std::string> launched;
  for (const auto& name : state_.changed_claims) {
    const Claim* c = state_.tables.claims.find(name);
    if (c != nullptr && c->state == ClaimState::kRequested && c->requested == state_.now) launched.insert(c->pool);
  }
  if (launched.empty()) return;
  const auto in_use = parts_.facts.usage();
  for (const auto& name : launched) {
    const Pool* pool = state_.tables.pools.find(name);
    QM_ASSERT(pool != nullptr && in_use.at(name).beyond(*pool).empty(), "pool {} exceeds its limits after a launch",
              name);
  }
}

}  // namespace qm::autoscaler
