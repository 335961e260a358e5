#include "evaluation.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::autoscaler {

void Evaluation::run() {
  state_.overlays.clear();
  for (const auto& [name, overlay] : state_.tables.overlays) state_.overlays.push_back(overlay);
  state_.overlays = ordered(std::move(state_.overlays)).accepted;
  parts_.gang_launches.match_unclaimed();
  parts_.retirement.join_nodes();
  parts_.group_members.give_up_failed();
  parts_.retirement.time_out();
  parts_.reservation_ends.note_ends();
  parts_.spot.join_notices();
  parts_.group_members.drain_leaving();
  parts_.spot.answer_notices();
  parts_.spot.answer_saves();
  parts_.schedules.keep_schedules();
  parts_.orders.close();
  parts_.schedules.answer_recommendations();
  parts_.schedules.order_due();
  parts_.scale_down.give_up();
  parts_.retirement.end_drained();
  parts_.gang_launches.roll_back_partial();
  parts_.drift.update();
  parts_.disruptions.follow_replacements();  // a claim without its replacement counts again
  parts_.consolidation.follow();
  // A node that is drained is missing for the demand, and one that is terminated in the budgets: both follow at once.
  for (std::size_t before = 0, leaving = leaving_claims(); before != leaving;) {
    before = leaving;
    parts_.static_pools.keep_replicas();
    parts_.provisioning.review();
    parts_.launches.cover_demand();
    parts_.headroom_slos.record();
    parts_.headroom.keep_buffers();
    parts_.retirement.retire_surplus();
    parts_.disruptions.disrupt();
    parts_.scale_down.run();
    parts_.disruptions.empty_nodes();
    leaving = leaving_claims();
  }
  parts_.consolidation.search();
  parts_.groups.size_groups();
  parts_.replica_scaling.run();
  parts_.group_members.answer_hooks();
  parts_.scale_in_protection.update();
  for (const auto& name : state_.changed_claims) {
    if (const Claim* row = state_.tables.claims.find(name)) state_.out.instances.push_back({name, *row, false});
  }
  check_laws();
  state_.out.wake_at = next_timer();
}

// The weight of a terminating one differs, so that the sum changes when a draining one is terminated.
std::size_t Evaluation::leaving_claims() const {
  std::size_t out = 1;
  for (const auto& [name, c] : state_.tables.claims)
    out += c.state == ClaimState::kTerminating ? 2 : c.state == ClaimState::kDraining ? 1 : 0;
  return out;
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
        consider(c.changed + (c.rolled_back ? state_.options.roll_back_retry : state_.options.registration));
        break;
      case ClaimState::kFailed:
        if (c.retry_at) consider(*c.retry_at);
        if (!c.owed) consider(c.changed + state_.options.failed_memory);
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
      if (c == nullptr || c->state != ClaimState::kReady) continue;
      consider(c->changed + state_.options.taken);
      consider(c->changed + state_.options.settle);
    }
  }
  for (const auto& [name, node] : state_.tables.nodes) {
    if (!node.known) consider(std::max(node.since + state_.options.registration, node.taken_at.value_or(Instant{})));
  }
  if (const auto at = parts_.spot.next()) consider(*at);
  if (const auto at = parts_.reservation_ends.next()) consider(*at);
  if (const auto at = parts_.provisioning.next()) consider(*at);
  if (const auto at = parts_.schedules.next()) consider(*at);
  for (const auto& [offering, outage] : state_.tables.blocked) consider(outage.until);
  if (const auto partial = parts_.gang_launches.next_timer()) consider(*partial);
  if (const auto hook = parts_.group_members.next_hook()) consider(*hook);
  if (const auto recent = parts_.groups.next_recent()) consider(*recent);
  if (const auto delayed = ScaleDownDelay(state_).until()) consider(*delayed);
  if (const auto planned = parts_.headroom_slos.next()) consider(*planned);
  if (state_.more_launches) consider(state_.now + std::chrono::seconds(1));
  for (const auto& [key, fault] : state_.tables.launch_faults) consider(fault.until);
  if (state_.disruptions_at) consider(*state_.disruptions_at);
  if (const auto at = parts_.replica_scaling.next()) consider(*at);
  return next;
}

void Evaluation::check_laws() const {
  if (!state_.tables.claims.dirty()) return;  // they held before this step
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
