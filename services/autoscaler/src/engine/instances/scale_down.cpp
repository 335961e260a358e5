// Scale-down of node groups.
//
//   a node is not needed for the time of its group     (scale_down library)
//     drain: no new pods, and the shell evicts those that are there
//     empty         -> terminated through its group, by its instance, with the decrement (Retirement)
//     not in time   -> it returns to service, and nothing is removed for a while
#include "instances/scale_down.hpp"

#include "instances/groups.hpp"
#include "instances/scale_down_delay.hpp"
#include "qm/autoscaler/disrupt/disrupt.hpp"
#include "qm/base/assert.hpp"

#include <algorithm>
#include <set>

namespace qm::autoscaler {
namespace {

bool is_removed(const Claim& c) {
  const bool ends = c.state == ClaimState::kDraining || c.state == ClaimState::kTerminating;
  return ends && (c.life.disruption == kScaleDown || c.life.disruption == name_of(DisruptionCause::kEmpty));
}

}  // namespace

void ScaleDown::wake(Instant at) {
  auto& next = state_.disruptions_at;
  if (at > state_.now && (!next || at < *next)) next = at;
}

void ScaleDown::give_up() {
  std::vector<ClaimName> late;
  for (const auto& [name, c] : tables_.claims) {
    if (c.state != ClaimState::kDraining || c.life.disruption != kScaleDown) continue;
    const NodeRow* node = facts_.node_of(c);
    const Instant until = c.changed + options_.scale_down.max_drain;
    if (node == nullptr || node->pods == 0 || node->taken_at) continue;
    if (until <= state_.now) {
      late.push_back(name);
    } else {
      wake(until);
    }
  }
  for (const auto& name : late) {
    claims_.keep(name, "its pods did not leave in time");
    tables_.scale_down.last.insert(kDrainFailed, state_.now);
  }
}

bool ScaleDown::takes_pods(const NodeName& name) const {
  const NodeRow* node = tables_.nodes.find(name);
  return node != nullptr && node->known && node->ready && !node->cordoned && !node->drain_requested &&
         !node->taken_at && !node->broken;
}

// What keeps the node although its pods could leave it.
std::string ScaleDown::kept_by(const ClaimName& name, const Claim& c, const Needs& needs) const {
  const NodeRow& node = *facts_.node_of(c);
  if (!tables_.scaling_groups.contains(c.group)) return fmt::format("group {} is not known yet", c.group);
  if (node.taken_at || node.broken || is_leaving(tables_, c)) return "it ends for another reason";
  if (!c.life.replaced_by.empty()) return "its replacement starts";
  if (needs.planned.contains(name)) return "a pending gang was promised it";
  if (state_.headroom.contains(name)) return "it is kept free as headroom";
  if (const auto gang = needs.gangs.find(c.node); gang != needs.gangs.end())
    return fmt::format("{} runs on it", facts_.title_of(*gang->second));
  const NodeDetails* details = facts_.details_of(c);
  if (details == nullptr) return {};
  if (details->do_not_disrupt) return fmt::format("it has the annotation {}", kDoNotDisrupt);
  if (const auto hold = annotation_hold(details->holding, state_.now)) return hold->why;
  return {};
}

ScaleDownProblem ScaleDown::problem(std::vector<ClaimName>& claims) const {
  ScaleDownProblem out;
  out.rules = options_.scale_down;
  std::map<std::string, std::size_t> groups;
  std::map<NodeName, const ClaimName*> by_node;
  std::map<std::string, std::int64_t> nodes_of_pool;
  for (const auto& [name, c] : tables_.claims) {
    const Pool* pool = tables_.pools.find(c.pool);
    if (pool == nullptr || pool->group.empty() || pool->manual || pool->is_static()) continue;
    const auto [at, fresh] = groups.emplace(pool->group, out.groups.size());
    if (fresh) {
      const ScalingGroup* row = tables_.scaling_groups.find(pool->group);
      const GroupScaleDown& own = pool->scale_down;
      out.groups.push_back({pool->group, row == nullptr ? 0 : row->min, 0,
                            own.utilization_milli.value_or(out.rules.utilization_milli),
                            own.gpu_utilization_milli.value_or(out.rules.gpu_utilization_milli),
                            own.ignore_daemon_sets.value_or(out.rules.ignore_daemon_sets)});
    }
    if (is_removed(c)) ++(c.life.disruption == kScaleDown ? out.draining : out.emptying);
    if (c.instance.empty() || !counts_in_group(c) || is_leaving(tables_, c)) continue;
    ++nodes_of_pool[c.pool];
    if (c.state != ClaimState::kDraining) ++out.groups[at->second].size;
    if (c.state == ClaimState::kReady && c.life.initialized && pool->consolidate_empty && facts_.node_of(c) != nullptr)
      by_node.emplace(c.node, &name);
  }
  for (const auto& [name, nodes] : nodes_of_pool) {
    const Pool& pool = *tables_.pools.find(name);
    ScaleDownGroup& group = out.groups[groups.at(pool.group)];
    std::int64_t disrupted = 0;
    for (const auto& [claim, c] : tables_.claims) disrupted += c.pool == name && is_removed(c) ? 1 : 0;
    const auto allowed = [&](DisruptionReason reason) {
      return allowed_disruptions(pool.budgets, reason, nodes, state_.now, next_in_utc).nodes - disrupted;
    };
    group.may_empty = allowed(DisruptionReason::kEmpty);
    group.may_drain = allowed(DisruptionReason::kUnderutilized);
  }
  Needs needs{facts_.planned(), {}};
  for (const auto& [id, attempt] : tables_.attempts) {
    for (const NodeName& node : attempt.nodes) needs.gangs.emplace(node, &id);
  }
  std::set<NodeName> disrupted;  // and not drained yet
  for (const auto& [name, c] : tables_.claims) {
    if (!c.life.disruption.empty()) disrupted.insert(c.node);
  }
  for (const auto& [name, pods] : tables_.node_pods) {
    ScaleDownNode& node = out.nodes.emplace_back();
    node.name = name.value();
    node.view = &pods;
    node.destination = takes_pods(name) && !disrupted.contains(name);
    claims.emplace_back();
    const auto owner = by_node.find(name);
    if (owner == by_node.end()) continue;
    claims.back() = *owner->second;
    const Claim& c = *tables_.claims.find(claims.back());
    const Pool& pool = *tables_.pools.find(c.pool);
    node.group = groups.at(pool.group);
    node.kept_by = kept_by(claims.back(), c, needs);
    const Instant* since = tables_.scale_down.unneeded.find(name);
    if (since != nullptr) node.since = *since;
    node.unneeded = idle_time(pool, *facts_.node_of(c));
  }
  return out;
}

const UnneededNodes& ScaleDown::found(const ScaleDownProblem& problem) {
  if (!last_ || last_->version != state_.node_pods_version || last_->problem != problem)
    last_ = Search{state_.node_pods_version, problem, find_unneeded(problem)};
  return last_->found;
}

std::optional<Instant> ScaleDown::delayed_until() const {
  auto out = ScaleDownDelay(state_).until();
  const auto later = [&](const char* event, Duration delay) {
    const Instant* last = tables_.scale_down.last.find(event);
    if (last != nullptr && delay > Duration::zero()) out = std::max(out.value_or(*last + delay), *last + delay);
  };
  later(kDeleted, options_.scale_down.delay_after_delete);
  later(kDrainFailed, options_.scale_down.delay_after_failure);
  return out;
}

void ScaleDown::note_removals() {
  bool removed = false;
  for (const auto& [name, c] : tables_.claims)
    removed |= c.state == ClaimState::kTerminating && c.changed == state_.now && !c.group.empty() && is_removed(c);
  const Instant* last = tables_.scale_down.last.find(kDeleted);
  if (removed && (last == nullptr || *last != state_.now)) tables_.scale_down.last.insert(kDeleted, state_.now);
}

void ScaleDown::forget_unneeded(const std::set<NodeName>& others) {
  std::vector<NodeName> needed;
  for (const auto& [name, since] : tables_.scale_down.unneeded) {
    if (!others.contains(name)) needed.push_back(name);
  }
  for (const NodeName& name : needed) tables_.scale_down.unneeded.erase(name);
}

void ScaleDown::run() {
  if (!state_.scales_groups_down() || !facts_.scales_somewhere()) return forget_unneeded({});
  note_removals();
  std::vector<ClaimName> claims;
  ScaleDownProblem all = problem(claims);
  const UnneededNodes unneeded = found(all);
  std::set<NodeName> names;
  for (const UnneededNode& one : unneeded.unneeded) {
    ScaleDownNode& node = all.nodes[one.node];
    const NodeName& name = *names.emplace(node.name).first;
    if (!node.since) tables_.scale_down.unneeded.insert(name, *(node.since = state_.now));
  }
  forget_unneeded(names);
  const auto decision = decide_scale_down(all, unneeded, state_.now, delayed_until());
  const std::string broken = broken_rule(all, unneeded, decision);
  QM_ASSERT(broken.empty(), "a decision about scale-down breaks a rule: {}", broken);
  if (decision.wake_at) wake(*decision.wake_at);
  for (const std::size_t one : decision.start) {
    const ClaimName& name = claims[unneeded.unneeded[one].node];
    const NodeName node = tables_.claims.find(name)->node;
    const std::string cause =
        tables_.nodes.find(node)->pods > 0 ? kScaleDown : std::string(name_of(DisruptionCause::kEmpty));
    claims_.drain(node, cause, std::nullopt);
    claims_.enter(name, ClaimState::kDraining, cause);
    tables_.claims.edit(name).life.disruption = cause;
  }
}

void ScaleDown::explain(std::vector<std::string>& lines, Instant now) const {
  if (!state_.scales_groups_down()) return;
  std::vector<ClaimName> claims;
  const ScaleDownProblem all = problem(claims);
  const UnneededNodes unneeded = find_unneeded(all);
  const auto decision = decide_scale_down(all, unneeded, now, delayed_until());
  lines.insert(lines.end(), decision.held.begin(), decision.held.end());
  for (const NeededNode& one : unneeded.needed)
    lines.push_back(fmt::format("node {} is needed: {}", all.nodes[one.node].name, one.why));
}

}  // namespace qm::autoscaler
