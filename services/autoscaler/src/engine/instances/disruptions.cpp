// Disruptions of nodes.
//
//   a node is due (disrupt library)
//     with a replacement first:  launch -> the new node is initialized -> drain
//     else                       drain
//   drain:  no new pods; gangs get a checkpoint order and are evicted; the rest is evicted by the shell
//   the node is empty, or its deadline has passed -> terminate (Retirement)
#include "instances/disruptions.hpp"

#include "instances/groups.hpp"
#include "instances/scale_down_delay.hpp"
#include "qm/base/assert.hpp"

#include <algorithm>
#include <set>

namespace qm::autoscaler {
namespace {

constexpr std::int32_t kMostDoublings = 6;  // a pause of 1 min becomes about an hour

bool is_disruptable(const Claim& c) { return c.state == ClaimState::kReady || c.state == ClaimState::kDraining; }

std::string text_of(DisruptionCause cause) { return std::string(name_of(cause)); }

}  // namespace

void Disruptions::wake(Instant at) {
  auto& next = state_.disruptions_at;
  if (at > state_.now && (!next || at < *next)) next = at;
}

void Disruptions::back_off(const std::string& pool, const std::string& reason) {
  const DriftBackOff* known = tables_.drift_back_offs.find(pool);
  if (known != nullptr && known->until > state_.now) return;  // one failure of several nodes at once
  DriftBackOff row = known == nullptr ? DriftBackOff{} : *known;
  row.until = state_.now + std::min<Duration>(options_.drift_pause * (1 << std::min(row.failures, kMostDoublings)),
                                              std::chrono::hours(1));
  ++row.failures;
  row.reason = reason;
  tables_.drift_back_offs.insert(pool, row);
}

// An empty instance that is needed for the pods of the node that it replaces.
bool Disruptions::awaits_pods(const Claim& c, Instant now) const {
  const Claim* old = c.life.replaces.empty() ? nullptr : tables_.claims.find(c.life.replaces);
  if (old == nullptr) return false;
  const bool over = old->state == ClaimState::kGone || old->state == ClaimState::kFailed;
  return !over || old->changed + options_.settle > now;
}

DisruptionNode Disruptions::node_of(const ClaimName& name, const Claim& c) const {
  const NodeRow& node = *facts_.node_of(c);
  const NodeDetails* details = facts_.details_of(c);
  DisruptionNode out;
  out.name = name.value();
  out.pool = c.pool;
  out.created = c.requested;
  out.ready = node.is_up();
  out.disrupted = c.state == ClaimState::kDraining || node.taken_at || node.broken || !c.life.disruption.empty();
  out.pods = node.pods;
  out.empty_since = node.empty_since;
  // Of a node that is not ready, another time may apply than that of the NodePool.
  const Pool& pool = *tables_.pools.find(c.pool);
  if (out.empty_since) *out.empty_since += idle_time(pool, node) - pool.consolidate_after;
  out.expire_after = c.life.expire_after;
  out.drift = c.life.drift;
  out.drifted_since = c.life.drifted_since.value_or(Instant{});
  if (details != nullptr) {
    out.do_not_disrupt = details->do_not_disrupt;
    out.holding = details->holding;
    out.serves = details->serves;
    out.unhealthy = details->unhealthy;
    out.repair_at = details->repair_at;
  }
  return out;
}

DisruptionProblem Disruptions::problem(Instant now, std::vector<ClaimName>& names) const {
  DisruptionProblem out;
  out.now = now;
  for (const auto& [name, pool] : tables_.pools) {
    DisruptionPool& one = out.pools.emplace_back();
    one.name = name;
    one.budgets = pool.budgets;
    one.is_static = pool.is_static();
    if (!pool.consolidate_empty) one.consolidate_after.reset();
    if (pool.consolidate_empty) one.consolidate_after = pool.consolidate_after;
    one.bounded = pool.lifecycle.termination_grace.has_value();
    if (const DriftBackOff* pause = tables_.drift_back_offs.find(name)) one.drift_after = pause->until;
  }
  const auto delayed_until = ScaleDownDelay(state_).until();
  const bool delayed = delayed_until && now < *delayed_until;
  const auto planned = facts_.planned();
  auto spare = spare_instances(tables_);
  // An empty node of a group is removed by the scale-down of groups, where that is on; and never below its minimum.
  const auto stays_in_group = [&](const std::string& group, const DisruptionNode& node) {
    if (group.empty() || node.disrupted || !node.empty_since || node.pods > 0) return false;
    if (state_.scales_groups_down()) return true;
    const auto at = spare.find(group);
    return at != spare.end() && !node.do_not_disrupt && node.holding.empty() && at->second-- <= 0;
  };
  for (const auto& [name, c] : tables_.claims) {
    const Pool* pool = tables_.pools.find(c.pool);
    if (!is_disruptable(c) || !c.life.initialized || pool == nullptr || pool->manual || facts_.node_of(c) == nullptr)
      continue;
    out.nodes.push_back(node_of(name, c));
    out.nodes.back().reserved =
        state_.headroom.contains(name) || awaits_pods(c, now) || stays_in_group(pool->group, out.nodes.back());
    out.nodes.back().nominated = planned.contains(name);
    if (delayed) out.nodes.back().empty_since.reset();
    names.push_back(name);
  }
  return out;
}

void Disruptions::drain(const ClaimName& name, const std::string& cause) {
  const Claim& c = *tables_.claims.find(name);
  const bool unhealthy = cause == name_of(DisruptionCause::kUnhealthy);
  std::optional<Instant> deadline;
  if (c.life.termination_grace) deadline = state_.now + *c.life.termination_grace;
  // A faulty node ends by force: at once if it is not ready, because nothing on it can save or leave.
  if (unhealthy) {
    const NodeDetails* details = facts_.details_of(c);
    const bool dead = !facts_.node_of(c)->ready && details != nullptr && details->unhealthy.starts_with("Ready ");
    const Instant end = dead ? state_.now : state_.now + options_.drain_save_time;
    deadline = std::min(deadline.value_or(end), end);
  }
  claims_.drain(c.node, cause, deadline);
  claims_.enter(name, ClaimState::kDraining, cause);
  ClaimLifecycle& life = tables_.claims.edit(name).life;
  life.disruption = cause;
  life.deadline = deadline;
}

bool Disruptions::start_replacement(const ClaimName& name, DisruptionCause cause) {
  const Claim& old = *tables_.claims.find(name);
  const Pool& pool = *tables_.pools.find(old.pool);
  const auto usage = facts_.usage();
  const auto in_use = usage.find(old.pool);
  std::string why;
  const auto offer = pool.group.empty()
                         ? offers_.cheapest_replica(pool, in_use == usage.end() ? Usage{} : in_use->second, &why,
                                                    facts_.type(old.type))
                         : std::nullopt;
  if (!offer) {
    if (!is_forceful(cause)) back_off(old.pool, why);
    return false;
  }
  const std::int64_t number = tables_.counters.edit("claim") += 1;
  const ClaimName replacement(fmt::format("{}-{:05}", old.pool, number));
  Claim c;
  c.pool = old.pool;
  c.type = offer->type->name;
  c.market = offer->offering.market;
  c.zone = offer->offering.zone;
  c.requested = c.changed = state_.now;
  c.reason = fmt::format("replaces {} ({}): {} {} is the cheapest at {} USD/h", name, name_of(cause), c.type,
                         capacity_type_of(offer->offering), offer->per_hour.to_usd(2));
  c.labels = offer->labels;
  c.reservation = offer->offering.reservation;
  c.life.replaces = name;
  c.life.resources = old.life.resources;
  claims_.launch(replacement, c, pool);
  ClaimLifecycle& life = tables_.claims.edit(name).life;
  life.replaced_by = replacement;
  life.disruption = text_of(cause);
  claims_.mark_changed(name);
  return true;
}

void Disruptions::follow_replacements() {
  std::vector<ClaimName> open;
  for (const auto& [name, c] : tables_.claims) {
    const bool replaced = !c.life.replaced_by.empty() && c.life.disruption != kUnderutilized;
    if (c.state == ClaimState::kReady && replaced) open.push_back(name);
  }
  for (const auto& name : open) {
    const Claim& c = *tables_.claims.find(name);
    const Claim* by = tables_.claims.find(c.life.replaced_by);
    const std::string cause = c.life.disruption, pool = c.pool;
    if (by != nullptr && by->state == ClaimState::kReady) {
      if (tables_.drift_back_offs.contains(pool)) tables_.drift_back_offs.erase(pool);
      drain(name, cause);
      continue;
    }
    const bool starting = by != nullptr && (by->state == ClaimState::kRequested || by->state == ClaimState::kLaunched);
    if (starting && !facts_.doomed(*by)) continue;
    const std::string reason =
        fmt::format("replacement {} failed: {}", c.life.replaced_by, by == nullptr ? "it is gone" : by->reason);
    ClaimLifecycle& life = tables_.claims.edit(name).life;
    life.replaced_by = ClaimName();
    life.disruption.clear();
    claims_.mark_changed(name);
    if (cause == name_of(DisruptionCause::kExpired)) {
      drain(name, cause);  // expiry does not depend on a replacement
    } else {
      back_off(pool, reason);
    }
  }
}

void Disruptions::disrupt() {
  std::vector<std::string> over;
  for (const auto& [name, row] : tables_.drift_back_offs) {
    if (!tables_.pools.contains(name)) over.push_back(name);
  }
  for (const auto& name : over) tables_.drift_back_offs.erase(name);
  if (!facts_.scales_somewhere()) return;
  std::vector<ClaimName> names;
  const auto all = problem(state_.now, names);
  const auto decision = decide_disruptions(all, next_in_utc);
  const std::string broken = broken_rule(all, decision, next_in_utc);
  QM_ASSERT(broken.empty(), "a decision about disruptions breaks a rule: {}", broken);
  if (decision.wake_at) wake(*decision.wake_at);
  for (const Disruption& one : decision.start) {
    const ClaimName& name = names[one.node];
    const bool waits = one.replace_first && start_replacement(name, one.cause);
    const bool refused = one.replace_first && !waits && !is_forceful(one.cause);
    if (refused) {
      wake(tables_.drift_back_offs.find(all.nodes[one.node].pool)->until);
    } else if (!waits) {
      drain(name, text_of(one.cause));
    }
  }
}

void Disruptions::empty_nodes() {
  std::vector<ClaimName> emptied;
  for (const auto& [name, c] : tables_.claims) {
    if (c.evicts_pods() && facts_.node_of(c) != nullptr) emptied.push_back(name);
  }
  for (const auto& name : emptied) {
    const Claim& c = *tables_.claims.find(name);
    if (c.life.deadline && *c.life.deadline <= state_.now) {
      claims_.terminate(name, fmt::format("{}: the deadline of its drain is over", c.life.disruption));
    } else {
      empty_node(c);
    }
  }
  for (const auto& [name, c] : tables_.claims) {
    const Claim* old = c.life.replaces.empty() ? nullptr : tables_.claims.find(c.life.replaces);
    if (old != nullptr && c.state == ClaimState::kReady) wake(old->changed + options_.settle);
  }
}

// Saving starts with the drain, or when the pods that hold the node do so no longer; at the latest in time for the deadline.
void Disruptions::empty_node(const Claim& c) {
  const NodeDetails* details = facts_.details_of(c);
  const auto holding = details == nullptr ? std::vector<HoldingPod>{} : details->holding;
  Instant from = c.changed;
  for (const HoldingPod& pod : holding) {
    const bool ends = pod.do_not_disrupt && *pod.do_not_disrupt != Duration::max();
    if (ends && pod.started + *pod.do_not_disrupt <= state_.now)
      from = std::max(from, pod.started + *pod.do_not_disrupt);
  }
  const auto& deadline = c.life.deadline;
  if (deadline) wake(*deadline);
  if (const auto hold = annotation_hold(holding, state_.now)) {
    const Instant last = deadline ? std::max(c.changed, *deadline - options_.drain_save_time) : Instant::max();
    if (state_.now < last) {
      if (hold->until) wake(*hold->until);
      if (deadline) wake(last);
      return;
    }
    from = last;
  }
  const Instant save_by =
      deadline ? std::min(from + options_.drain_save_time, *deadline) : from + options_.drain_save_time;
  for (const auto& [id, attempt] : tables_.attempts) {
    const bool there = std::ranges::find(attempt.nodes, c.node) != attempt.nodes.end();
    if (there && c.life.disruption == kUnderutilized) {
      orders_.evict_saved(id, attempt, c.node, std::max(state_.now, save_by), c.life.disruption);
    } else if (there) {
      orders_.save_and_evict(id, attempt, c.node, std::max(state_.now, save_by), c.life.disruption);
    }
  }
}

void Disruptions::explain_held(std::vector<std::string>& lines, Instant now) const {
  std::vector<ClaimName> names;
  const auto all = problem(now, names);
  for (const HeldNode& one : decide_disruptions(all, next_in_utc).held) {
    const Claim& c = *tables_.claims.find(names[one.node]);
    lines.push_back(fmt::format("NodeClaim {} on node {} is {} and stays: {}", names[one.node], c.node,
                                name_of(one.cause), one.why));
  }
}

std::map<std::string, std::int64_t> Disruptions::eligible_nodes(Instant now) const {
  std::map<std::string, std::int64_t> out{{"empty", 0}, {"drifted", 0}};
  std::vector<ClaimName> names;
  const auto decision = decide_disruptions(problem(now, names), next_in_utc);
  const auto count = [&](DisruptionCause cause) {
    if (!is_forceful(cause)) ++out[cause == DisruptionCause::kEmpty ? "empty" : "drifted"];
  };
  for (const Disruption& one : decision.start) count(one.cause);
  for (const HeldNode& one : decision.held) count(one.cause);
  return out;
}

}  // namespace qm::autoscaler
