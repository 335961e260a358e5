// The steps of a consolidation. Its row has its nodes and replacements; the places of pods are planned at each step.
#include "consolidation/consolidation.hpp"

#include "qm/base/assert.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace qm::autoscaler {
namespace {

constexpr const char* kLast = "last";
constexpr const char* kConsolidationCounter = "consolidation";

std::vector<std::size_t> indices_of(const ClusterView& view, const std::vector<ClaimName>& claims) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < view.claims.size(); ++i) {
    if (std::ranges::find(claims, view.claims[i]) != claims.end()) out.push_back(i);
  }
  return out;
}

}  // namespace

bool Consolidation::acts() const {
  if (!options_.consolidation || tables_.node_pods.size() == 0 || !facts_.scales_somewhere()) return false;
  return std::ranges::any_of(tables_.pools, [](const auto& entry) { return entry.second.consolidate_underutilized; });
}

std::vector<std::string> Consolidation::keys() const {
  std::vector<std::string> out;
  for (const auto& [key, row] : tables_.consolidations) out.push_back(key);
  return out;
}

void Consolidation::follow() {
  keep_held();
  for (const auto& key : keys()) step(key);
}

// A pod that must not be disrupted was bound before the drain was seen.
void Consolidation::keep_held() {
  std::vector<std::pair<ClaimName, std::string>> kept;
  for (const auto& [name, c] : tables_.claims) {
    if (c.state != ClaimState::kDraining || c.life.disruption != kUnderutilized) continue;
    const NodeDetails* details = facts_.details_of(c);
    const NodeRow* node = facts_.node_of(c);
    if (details == nullptr || node == nullptr || node->taken_at) continue;
    if (const auto hold = annotation_hold(details->holding, state_.now)) kept.emplace_back(name, hold->why);
  }
  for (const auto& [name, why] : kept) {
    claims_.keep(name, why);
    tables_.claims.edit(name).life.not_consolidated_before = state_.now + options_.consolidation_pause;
  }
}

// Why the consolidation cannot go on; empty = it can.
std::string Consolidation::broken(const ConsolidationRow& row) const {
  if (!acts()) return "consolidation is off";
  for (const auto& name : row.claims) {
    const Claim* c = tables_.claims.find(name);
    if (c == nullptr || c->state != ClaimState::kReady || facts_.doomed(*c))
      return fmt::format("NodeClaim {} is not ready any more", name);
    if (!c->life.disruption.empty() && c->life.disruption != kUnderutilized)
      return fmt::format("NodeClaim {} is disrupted: {}", name, c->life.disruption);
    const NodeDetails* details = facts_.details_of(*c);
    if (details == nullptr || details->do_not_disrupt) return fmt::format("node {} must not be disrupted", c->node);
    if (const auto hold = annotation_hold(details->holding, state_.now)) return hold->why;
  }
  return failed_replacement(row);
}

std::string Consolidation::failed_replacement(const ConsolidationRow& row) const {
  for (const auto& name : row.replacements) {
    const Claim* c = tables_.claims.find(name);
    const bool starts = c != nullptr && (c->state == ClaimState::kRequested || c->state == ClaimState::kLaunched ||
                                         c->state == ClaimState::kReady);
    if (!starts || facts_.doomed(*c))
      return fmt::format("replacement {} failed: {}", name, c == nullptr ? "it is gone" : c->reason);
  }
  return {};
}

void Consolidation::step(const std::string& key) {
  const ConsolidationRow row = *tables_.consolidations.find(key);
  if (const std::string why = broken(row); !why.empty()) return give_up(key, why);
  switch (row.phase) {
    case Phase::kValidating:
      return validate(key);
    case Phase::kLaunching:
      return await_replacements(key);
    case Phase::kSaving:
      return await_saves(key);
  }
}

// The result is verified by the rules, without the search.
Result<consolidate::Plan> Consolidation::plan_again(const ConsolidationRow& row, ClusterView& view) {
  view = views_.build(&row);
  const auto nodes = indices_of(view, row.claims);
  if (nodes.size() != row.claims.size()) return fail(Code::kFailedPrecondition, "a node has left");
  auto plan = consolidate::plan_removal(view.problem, nodes);
  if (!plan) return plan;
  const Status holds = consolidate::still_holds(view.problem, *plan);
  QM_ASSERT(holds.has_value(), "a consolidation breaks a rule: {}", holds.error().to_string());
  return plan;
}

void Consolidation::validate(const std::string& key) {
  const ConsolidationRow row = *tables_.consolidations.find(key);
  const Instant due = row.since + options_.consolidation_validation;
  if (state_.now < due) return disruptions_.wake(due);
  ClusterView view;
  const auto plan = plan_again(row, view);
  const std::string why = plan ? execute(key, view, *plan) : plan.error().message;
  if (!why.empty()) give_up(key, why);
}

// Launches the replacements; an error has the reason, and nothing is launched then.
std::string Consolidation::execute(const std::string& key, const ClusterView& view, const consolidate::Plan& plan) {
  std::vector<std::pair<Claim, const Pool*>> launches;
  for (const auto& one : plan.launches) {
    const auto& from = view.launchables[one.pool];
    const Offering& offering = from.types[one.type].offerings[one.offering];
    std::vector<PodSet> sets;
    std::set<std::string> resources;
    for (const auto& [pod, kind] : one.pods) {
      const PodSet& set = sets.emplace_back(view.sets[kind]);
      if (set.shape.gpu.whole > 0) resources.emplace(words::kGpuResource);
      for (const auto& [resource, amount] : set.shape.extended) {
        if (amount > 0 && from.types[one.type].type->extended.contains(resource)) resources.insert(resource);
      }
    }
    const auto labels = nodes_.chosen_labels(*from.pool, sets);
    if (!labels) return fmt::format("NodePool {} has no labels that all pods of a new node select", from.pool->name);
    Claim c;
    c.pool = from.pool->name;
    c.type = offering.type, c.zone = offering.zone, c.market = offering.market;
    c.requested = c.changed = state_.now;
    c.labels = *labels;
    c.life.resources.assign(resources.begin(), resources.end());
    c.reservation = offering.reservation;
    c.life.consolidated = state_.now;
    launches.emplace_back(std::move(c), from.pool);
  }
  ConsolidationRow& row = tables_.consolidations.edit(key);
  row.reason = fmt::format("{} nodes at {} USD/h become {} at {} USD/h", row.claims.size(), plan.before.to_usd(2),
                           plan.launches.size(), plan.after.to_usd(2));
  for (std::size_t i = 0; i < launches.size(); ++i) {
    auto& [claim, pool] = launches[i];
    const std::int64_t number = tables_.counters.edit("claim") += 1;
    const ClaimName name(fmt::format("{}-{:05}", claim.pool, number));
    claim.life.replaces = row.claims[std::min(i, row.claims.size() - 1)];
    claim.reason = fmt::format("replaces {} ({}): {}", claim.life.replaces, kUnderutilized, row.reason);
    claims_.launch(name, claim, *pool);
    row.replacements.push_back(name);
  }
  for (std::size_t i = 0; i < row.claims.size(); ++i) {
    ClaimLifecycle& life = tables_.claims.edit(row.claims[i]).life;
    life.disruption = kUnderutilized;
    if (!row.replacements.empty()) life.replaced_by = row.replacements[std::min(i, row.replacements.size() - 1)];
    claims_.mark_changed(row.claims[i]);
  }
  row.phase = Phase::kLaunching;
  row.since = state_.now;
  await_replacements(key);
  return {};
}

void Consolidation::await_replacements(const std::string& key) {
  const ConsolidationRow row = *tables_.consolidations.find(key);
  const bool ready = std::ranges::all_of(row.replacements, [&](const ClaimName& name) {
    const Claim& c = *tables_.claims.find(name);
    return c.state == ClaimState::kReady && c.life.initialized && facts_.details_of(c) != nullptr;
  });
  if (!ready) return;
  start_saving(key);
}

std::vector<AttemptId> Consolidation::saving_attempts(const ConsolidationRow& row) const {
  std::set<NodeName> nodes;
  for (const auto& name : row.claims) nodes.insert(tables_.claims.find(name)->node);
  std::vector<AttemptId> out;
  for (const auto& [id, attempt] : tables_.attempts) {
    const WorkloadRow* workload = tables_.workloads.find(id.uid);
    const bool there = std::ranges::any_of(attempt.nodes, [&](const NodeName& node) { return nodes.contains(node); });
    if (there && workload != nullptr && workload->checkpoints) out.push_back(id);
  }
  return out;
}

bool Consolidation::saved_since(const AttemptId& id, Instant since) const {
  const CheckpointRow* newest = tables_.checkpoints.find(id.uid);
  return newest != nullptr && newest->fence.attempt == id.attempt && newest->at >= since;
}

void Consolidation::start_saving(const std::string& key) {
  ConsolidationRow& row = tables_.consolidations.edit(key);
  row.phase = Phase::kSaving;
  row.since = state_.now;
  for (const AttemptId& id : saving_attempts(row)) {
    if (!orders_.has_order(id))
      orders_.save(id, *tables_.attempts.find(id), state_.now + options_.drain_save_time, std::string(kUnderutilized));
  }
  await_saves(key);
}

// No gang is moved without its checkpoint: an order that fails, or is late, ends the consolidation.
void Consolidation::await_saves(const std::string& key) {
  const ConsolidationRow row = *tables_.consolidations.find(key);
  for (const AttemptId& id : saving_attempts(row)) {
    if (saved_since(id, row.since)) continue;
    if (!orders_.has_order(id)) return give_up(key, fmt::format("{} did not save", facts_.title_of(id)));
    return disruptions_.wake(row.since + options_.drain_save_time);
  }
  drain(key);
}

// The replacements run now: the pods must fit without another launch.
void Consolidation::drain(const std::string& key) {
  const ConsolidationRow row = *tables_.consolidations.find(key);
  ClusterView view;
  const auto plan = plan_again(row, view);
  if (!plan) return give_up(key, plan.error().message);
  if (!plan->launches.empty()) return give_up(key, "its pods do not fit the replacements any more");
  for (const auto& name : row.claims) disruptions_.drain(name, std::string(kUnderutilized));
  tables_.consolidations.erase(key);
}

void Consolidation::give_up(const std::string& key, const std::string& why) {
  const ConsolidationRow row = *tables_.consolidations.find(key);
  if (row.phase == Phase::kValidating) return tables_.consolidations.erase(key);  // nothing was done yet
  for (const auto& name : row.claims) {
    if (!tables_.claims.contains(name)) continue;
    Claim& c = tables_.claims.edit(name);
    c.life.not_consolidated_before = state_.now + options_.consolidation_pause;
    if (c.state != ClaimState::kReady || c.life.disruption != kUnderutilized) continue;
    c.life.disruption.clear();
    c.life.replaced_by = ClaimName();
    c.reason = fmt::format("its consolidation was given up: {}", why);
    claims_.mark_changed(name);
  }
  for (const auto& name : row.replacements) {
    if (tables_.claims.contains(name)) tables_.claims.edit(name).life.replaces = ClaimName();
  }
  tables_.consolidations.erase(key);
}

void Consolidation::search() {
  // A disruption of this step may have taken a node.
  for (const auto& key : keys()) {
    if (const std::string why = broken(*tables_.consolidations.find(key)); !why.empty()) give_up(key, why);
  }
  if (!acts() || tables_.consolidations.size() > 0) return;
  const ConsolidationCheck* last = tables_.consolidation_checks.find(kLast);
  if (last != nullptr && state_.now < last->at + options_.consolidation_period)
    return disruptions_.wake(last->at + options_.consolidation_period);
  const ClusterView view = views_.build(nullptr);
  if (last != nullptr && last->digest == view.digest) {
    if (view.wake_at) disruptions_.wake(*view.wake_at);
    return;
  }
  tables_.consolidation_checks.insert(kLast, {state_.now, view.digest});
  const auto plan = consolidate::plan(view.problem);
  if (!plan) return disruptions_.wake(state_.now + options_.consolidation_period);
  ConsolidationRow row;
  row.since = state_.now;
  for (const std::size_t node : plan->removed) row.claims.push_back(view.claims[node]);
  row.reason = fmt::format("{} nodes at {} USD/h may become {} at {} USD/h", plan->removed.size(),
                           plan->before.to_usd(2), plan->launches.size(), plan->after.to_usd(2));
  const std::int64_t number = tables_.counters.edit(kConsolidationCounter) += 1;
  tables_.consolidations.insert(fmt::format("{:08}", number), std::move(row));
  disruptions_.wake(state_.now + options_.consolidation_validation);
}

void Consolidation::explain(std::vector<std::string>& lines) const {
  constexpr const char* kWords[] = {"is validated", "awaits its replacements", "awaits checkpoints"};
  for (const auto& [key, row] : tables_.consolidations) {
    lines.push_back(fmt::format("consolidation of NodeClaims {} {}: {}", fmt::join(row.claims, ", "),
                                kWords[static_cast<int>(row.phase)], row.reason));
  }
}

}  // namespace qm::autoscaler
