// Instances as their Auto Scaling group reports them.
#include "instances/group_members.hpp"

#include "instances/groups.hpp"

#include <algorithm>

namespace qm::autoscaler {

void GroupMembers::give_up_failed() {
  std::vector<ClaimName> failed, confirmed;
  for (const auto& [name, c] : tables_.claims) {
    const ScalingGroup* group = c.group.empty() ? nullptr : tables_.scaling_groups.find(c.group);
    if (group == nullptr || !group->failed_at || *group->failed_at < c.requested || !c.instance.empty()) continue;
    if (c.state == ClaimState::kRequested) failed.push_back(name);
    if (c.owed) confirmed.push_back(name);
  }
  for (const auto& name : failed) {
    const std::string group = tables_.claims.find(name)->group;
    claims_.give_up(
        name, fmt::format("the group {} cannot launch it: {}", group, tables_.scaling_groups.find(group)->failure));
  }
  for (const auto& name : confirmed) tables_.claims.edit(name).owed = false;
}

void GroupMembers::drain_leaving() {
  std::vector<std::pair<NodeName, Instant>> leaving;
  for (const auto& [name, c] : tables_.claims) {
    if (!is_leaving(tables_, c) || c.state == ClaimState::kTerminating || c.state == ClaimState::kGone) continue;
    const HookWait* wait = tables_.hook_waits.find(c.instance);
    if (facts_.node_of(c) != nullptr)
      leaving.emplace_back(c.node, (wait == nullptr ? state_.now : wait->since) + options_.group_drain);
  }
  for (const auto& [node, until] : leaving) {
    const NodeRow& row = *tables_.nodes.find(node);
    if (row.taken_at || (row.drain_requested && row.drain_reason == kGroupTermination)) continue;
    claims_.drain(node, kGroupTermination, until);
    for (const auto& [id, attempt] : tables_.attempts) {
      const bool on_it = std::ranges::find(attempt.nodes, node) != attempt.nodes.end();
      if (on_it && !tables_.saves.contains(id)) tables_.saves.insert(id, SaveRow{node, kGroupTermination, until});
    }
  }
  std::vector<AttemptId> over;
  for (const auto& [id, save] : tables_.saves) {
    if (save.reason == kGroupTermination && !tables_.attempts.contains(id)) over.push_back(id);
  }
  for (const auto& id : over) tables_.saves.erase(id);
}

bool GroupMembers::may_continue(const Claim& c, const HookWait& wait) const {
  if (wait.launching) return c.state == ClaimState::kReady || c.state == ClaimState::kTerminating;
  const NodeRow* node = facts_.node_of(c);
  return node == nullptr || node->pods == 0 || wait.since + options_.group_drain <= state_.now;
}

Duration GroupMembers::heartbeat(const Claim& c, bool launching) const {
  const ScalingGroup* group = tables_.scaling_groups.find(c.group);
  Duration shortest = std::chrono::hours(1);  // the default of the service
  if (group == nullptr) return shortest;
  for (const auto& hook : group->hooks) {
    if (hook.launching == launching) shortest = std::min(shortest, hook.heartbeat);
  }
  return shortest;
}

// A heartbeat at half of the timeout leaves time for a retry.
void GroupMembers::answer_hooks() {
  std::set<InstanceId> waiting;
  std::vector<const Claim*> held;
  for (const auto& [name, c] : tables_.claims) {
    const ScalingGroup* group = c.group.empty() || c.instance.empty() ? nullptr : tables_.scaling_groups.find(c.group);
    const auto* member = group == nullptr ? nullptr : group->member(c.instance);
    if (member != nullptr && member->lifecycle.ends_with(":Wait") && waiting.insert(c.instance).second)
      held.push_back(&c);
  }
  for (const Claim* c : held) {
    const ScalingGroup& group = *tables_.scaling_groups.find(c->group);
    const bool launching = group.member(c->instance)->lifecycle.starts_with("Pending");
    const HookWait* known = tables_.hook_waits.find(c->instance);
    if (known == nullptr || known->launching != launching)
      tables_.hook_waits.insert(c->instance, {launching, state_.now, state_.now, false});
    const HookWait wait = *tables_.hook_waits.find(c->instance);
    if (wait.continued) continue;
    const bool done = may_continue(*c, wait);
    if (!done && state_.now < wait.answered + heartbeat(*c, launching) / 2) continue;
    HookWait& row = tables_.hook_waits.edit(c->instance);
    row.continued = done;
    row.answered = state_.now;
    for (const auto& hook : group.hooks) {
      if (hook.launching != launching) continue;
      state_.out.hooks.push_back({c->group, hook.name, c->instance, done, tables_.counters.edit("hook") += 1});
    }
  }
  std::vector<InstanceId> over;
  for (const auto& [instance, wait] : tables_.hook_waits) {
    if (!waiting.contains(instance)) over.push_back(instance);
  }
  for (const auto& instance : over) tables_.hook_waits.erase(instance);
}

std::optional<Instant> GroupMembers::next_hook() const {
  std::optional<Instant> next;
  for (const auto& [name, c] : tables_.claims) {
    const HookWait* wait = c.instance.empty() ? nullptr : tables_.hook_waits.find(c.instance);
    if (wait == nullptr || wait->continued) continue;
    Instant at = wait->answered + heartbeat(c, wait->launching) / 2;
    if (!wait->launching) at = std::min(at, wait->since + options_.group_drain);
    next = std::min(next.value_or(at), at);
  }
  return next;
}

}  // namespace qm::autoscaler
