#include "consolidation/cluster_view.hpp"

#include "instances/scale_down_delay.hpp"
#include "qm/base/digest.hpp"
#include "qm/kube_rules/text.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace qm::autoscaler {
namespace {

constexpr double kNanoPerUsd = 1e9;
constexpr std::size_t kMostPendingPods = 500;           // pods that may use free capacity first
constexpr Duration kObserved = std::chrono::hours(24);  // of running time, until a hazard counts as observed
constexpr std::string_view kNodes = "nodes";

Namespace namespace_of(const std::string& pod) { return Namespace(pod.substr(0, pod.find('/'))); }

/// Amounts of which limits are kept.
kube_rules::Amounts amounts_of(const Usage& usage) {
  kube_rules::Amounts out = usage.other;
  out["cpu"] = usage.cpu_milli;
  out["memory"] = usage.memory_bytes;
  out[std::string(words::kGpuResource)] = usage.gpus;
  return out;
}

bool is_gpu(const std::string& resource) {
  return resource == words::kGpuResource || resource == words::kGpuMilliResource ||
         resource.starts_with(words::kMigPrefix);
}

/// The pod as a set of one. Its GPUs are those of the shape, the other requests those of its text.
PodSet set_of(const NodePod& pod) {
  PodSet out;
  out.shape.gpu = pod.gpu;
  auto like = kube_rules::template_of(pod.rules);
  if (!like) return out;
  for (const auto& [resource, amount] : std::exchange(like->rules.requests, {})) {
    if (resource == "cpu") {
      out.shape.cpu_milli = amount;
    } else if (resource == "memory") {
      out.shape.memory_bytes = amount;
    } else if (!is_gpu(resource)) {
      out.shape.extended[resource] = amount;
    }
  }
  out.shape.node_selector = std::exchange(like->rules.node_selector, {});
  out.shape.tolerations = std::exchange(like->rules.tolerations, {});
  out.rules = kube_rules::text_of(*like);
  return out;
}

/// The first pod without constraints that can be read; nothing can be planned with it.
const NodePod* unreadable(const NodePods& shown) {
  const auto at = std::ranges::find_if(shown.pods, [](const NodePod& pod) { return pod.rules.empty(); });
  return at == shown.pods.end() ? nullptr : &*at;
}

std::string text_of_offering(const pack::InstanceType& type, const pack::Offering& offering) {
  return fmt::format("{} {} {} {}", type.name, offering.zone, offering.capacity_type, offering.price);
}

}  // namespace

struct ViewBuilder::Work {
  ClusterView view;
  const ConsolidationRow* own = nullptr;
  std::map<NodeName, ClaimName> claims;
  std::map<NodeName, std::vector<AttemptId>> attempts;
  std::map<std::pair<std::string, PodSet>, std::size_t> kinds;
  std::map<std::pair<std::string, GpuShape>, PodSet> sets;  ///< by the text and GPUs of a pod
  std::set<ClaimName> planned, disrupted;
  std::map<std::string, std::int64_t> left;  ///< disruptions, by NodePool
  std::map<std::pair<std::string, std::string>, checkpoint::Hazard> hazards;
  std::vector<std::pair<std::string, std::size_t>> leaving;  ///< pods of nodes that are drained
  bool delayed = false;

  void wake(Instant now, Instant at) {
    if (at > now && (!view.wake_at || at < *view.wake_at)) view.wake_at = at;
  }
  /// A node of the consolidation, unless it is disrupted for another reason meanwhile.
  [[nodiscard]] bool owns(const ClaimName& name, const Claim& claim) const {
    const bool listed = own != nullptr && std::ranges::find(own->claims, name) != own->claims.end();
    return listed && (claim.life.disruption.empty() || claim.life.disruption == kUnderutilized);
  }
  [[nodiscard]] bool launched(const ClaimName& claim) const {
    return own != nullptr && std::ranges::find(own->replacements, claim) != own->replacements.end();
  }
};

// The volumes of a pod are where it runs: it stays in the zone of its node.
std::size_t ViewBuilder::kind_of(Work& work, const Namespace& ns, const PodSet& set) const {
  const auto [at, first] = work.kinds.try_emplace({ns.value(), set}, work.view.sets.size());
  if (first) {
    work.view.sets.push_back(set);
    work.view.namespaces.push_back(ns);
    work.view.problem.kinds.push_back({kube_rules::template_of(set, ns), std::nullopt});
  }
  return at->second;
}

std::optional<double> ViewBuilder::hazard(const Work& work, const Offering& offering) const {
  if (offering.market != Market::kSpot) return std::nullopt;
  const auto seen = work.hazards.find({offering.type, offering.zone});
  if (seen == work.hazards.end() || seen->second.exposure < kObserved) return std::nullopt;
  return 3600 / seconds(checkpoint::mean_time_of(seen->second));
}

std::string ViewBuilder::held_by_gang(const Work& work, const NodeName& node, const NodePods& shown) const {
  bool trains = false, shares = false;
  for (const NodePod& pod : shown.pods) {
    if (pod.stays) continue;
    shares |= pod.gpu.milli > 0 || pod.gpu.mig_count > 0;
    trains |= !is_service(pod.controller) && pod.gpu.whole > 0;
  }
  if (shares) return "its pods share GPUs";
  const auto attempts = work.attempts.find(node);
  if (attempts == work.attempts.end()) return trains ? "its GPU pods cannot save a checkpoint" : "";
  for (const AttemptId& id : attempts->second) {
    const std::size_t nodes = tables_.attempts.find(id)->nodes.size();
    const WorkloadRow* workload = tables_.workloads.find(id.uid);
    if (nodes > 1) return fmt::format("{} runs on {} nodes", facts_.title_of(id), nodes);
    if (trains && (workload == nullptr || !workload->checkpoints))
      return fmt::format("{} cannot save a checkpoint", facts_.title_of(id));
  }
  return {};
}

std::string ViewBuilder::held_by_pods(Work& work, const Claim& c, const NodePods& shown) const {
  const NodeDetails& details = *facts_.details_of(c);
  if (const auto hold = hold_of(details.holding, state_.now)) {
    if (hold->until) work.wake(state_.now, *hold->until);
    return hold->why;
  }
  if (const NodePod* pod = unreadable(shown)) return fmt::format("the constraints of pod {} cannot be read", pod->name);
  std::int64_t known = 0, moving = 0;
  for (const NodePod& pod : shown.pods) {
    known += pod.kind == NodePod::Kind::kMoves ? 1 : 0;
    moving += pod.stays ? 0 : 1;
  }
  const NodeRow& node = *facts_.node_of(c);
  if (known < node.pods) return fmt::format("{} of its {} pods are not known yet", node.pods - known, node.pods);
  if (moving == 0) return "it is empty";
  return held_by_gang(work, c.node, shown);
}

std::string ViewBuilder::held(Work& work, const ClaimName& name, const NodePods& shown) const {
  const Claim* c = name.empty() ? nullptr : tables_.claims.find(name);
  const Pool* pool = c == nullptr ? nullptr : tables_.pools.find(c->pool);
  if (pool == nullptr) return "no NodePool has it";
  if (pool->is_static() || pool->manual || !pool->group.empty())
    return "the size of its NodePool is fixed, or a group's";
  if (!pool->consolidate_underutilized) return "its NodePool consolidates empty nodes only, or none";
  const NodeRow& node = *facts_.node_of(*c);
  if (c->state != ClaimState::kReady || !c->life.initialized || !node.ready) return "it is not ready";
  const bool ours = work.owns(name, *c);
  if (!ours && (work.disrupted.contains(name) || !c->life.disruption.empty())) return "it is disrupted already";
  if (node.taken_at || node.broken || node.drain_requested) return "it is disrupted already";
  if (work.planned.contains(name)) return "a pending gang was promised it";
  if (state_.headroom.contains(name) || disruptions_.awaits_pods(*c, state_.now)) return "it is kept for other pods";
  if (work.delayed) return "instances were launched a short time ago";
  if (facts_.details_of(*c)->do_not_disrupt) return fmt::format("the node has the annotation {}: true", kDoNotDisrupt);
  const Instant quiet = shown.changed + pool->consolidate_after;
  const Instant rested = std::max(quiet, c->life.not_consolidated_before.value_or(Instant{}));
  const bool drains = ours && work.own->phase != ConsolidationRow::Phase::kValidating;
  if (rested > state_.now && !drains) {
    work.wake(state_.now, rested);
    return "its pods changed, or a consolidation of it was given up, a short time ago";
  }
  return held_by_pods(work, *c, shown);
}

bool ViewBuilder::accepts(const Work& work, const NodeRow& row, const NodePods& shown, const ClaimName& name) const {
  if (!row.ready || row.cordoned || row.broken || row.taken_at || row.drain_requested || unreadable(shown) != nullptr)
    return false;
  const Claim* c = name.empty() ? nullptr : tables_.claims.find(name);
  if (c == nullptr || work.launched(name)) return true;
  if (c->state != ClaimState::kReady || !c->life.initialized || facts_.doomed(*c) || !c->life.disruption.empty())
    return false;
  const Pool* pool = tables_.pools.find(c->pool);
  if (pool == nullptr || work.planned.contains(name)) return false;
  const bool ends = pool->consolidate_empty && !pool->is_static();
  if (ends && row.pods == 0) return false;
  return !pool->consolidate_empty || shown.changed + pool->consolidate_after <= state_.now;
}

void ViewBuilder::add_pods(Work& work, const NodeName& name, const NodePods& shown, consolidate::Node& out) const {
  Duration save{0};
  bool saves = false;
  if (const auto attempts = work.attempts.find(name); attempts != work.attempts.end()) {
    for (const AttemptId& id : attempts->second) {
      const WorkloadRow* workload = tables_.workloads.find(id.uid);
      if (workload == nullptr || !workload->checkpoints) continue;
      saves = true;
      save = std::max(save, orders_.save_time(id.uid));
    }
  }
  const auto zone = shown.labels.find(std::string(words::kZone));
  for (const NodePod& pod : shown.pods) {
    const auto [known, first_seen] = work.sets.try_emplace({pod.rules, pod.gpu});
    if (first_seen) known->second = set_of(pod);
    PodSet set = known->second;
    const bool volumes = kube_rules::names_claims(set.rules) || kube_rules::names_own_claims(set.rules);
    if (volumes && zone != shown.labels.end()) set.shape.node_selector.insert(*zone);
    consolidate::Pod one{pod.name, kind_of(work, namespace_of(pod.name), set), pod.stays, Duration{0}, pod.budget};
    if (!is_service(pod.controller)) one.lost = saves ? save : std::max(state_.now - pod.started, Duration{0});
    out.pods.push_back(std::move(one));
    if (pod.budget.empty()) continue;
    const auto [at, first] = work.view.problem.evictions.try_emplace(pod.budget, pod.budget_allows);
    if (!first) at->second = std::min(at->second, pod.budget_allows);
  }
}

void ViewBuilder::add_nodes(Work& work) const {
  std::map<std::string, std::int64_t> in_progress;  // nodes with pods of a budget that are drained
  for (const auto& [name, shown] : tables_.node_pods) {
    const NodeRow* row = tables_.nodes.find(name);
    if (row == nullptr || !row->known) continue;
    const auto found = work.claims.find(name);
    const ClaimName claim = found == work.claims.end() ? ClaimName() : found->second;
    const Claim* c = claim.empty() ? nullptr : tables_.claims.find(claim);
    consolidate::Node& out = work.view.problem.nodes.emplace_back();
    work.view.claims.push_back(claim);
    out.view = {name, shown.labels, shown.taints, row->cordoned || !row->ready, shown.allocatable};
    out.held = held(work, claim, shown);
    out.accepts = accepts(work, *row, shown, claim);
    add_pods(work, name, shown, out);
    if (c != nullptr) {
      out.pool = c->pool, out.type = c->type, out.zone = c->zone;
      out.spot = c->market == Market::kSpot;
      out.hazard = hazard(work, {c->type, c->zone, c->market, ""});
      const auto rate = offers_.price_of(*c);
      if (rate) out.per_hour = rate->per_hour;
      if (!rate && out.held.empty()) out.held = "it has no price";
      const Instant fresh_until = c->life.consolidated.value_or(Instant{}) + options_.consolidation_memory;
      out.fresh = c->life.consolidated && fresh_until > state_.now;
      if (out.fresh) work.wake(state_.now, fresh_until);
    }
    const bool leaves = row->drain_requested || (c != nullptr && c->state == ClaimState::kDraining);
    if (!leaves) continue;
    std::set<std::string> budgets;
    for (const consolidate::Pod& pod : out.pods) {
      if (pod.stays) continue;
      work.leaving.emplace_back(pod.name + "/leaving", pod.kind);
      if (!pod.budget.empty()) budgets.insert(pod.budget);
    }
    for (const auto& budget : budgets) ++in_progress[budget];
  }
  for (const auto& [budget, nodes] : in_progress) {
    auto& allowed = work.view.problem.evictions[budget];
    allowed = std::max<std::int64_t>(allowed - nodes, 0);
  }
}

void ViewBuilder::add_pending(Work& work) const {
  auto& pending = work.view.problem.pending;
  for (const auto& [name, kind] : work.leaving) pending.push_back({name, kind, false, Duration{0}, {}});
  for (const auto& [uid, item] : tables_.demand) {
    for (const PodSet& set : item.pod_sets) {
      PodSet one = set;
      one.count = 1, one.name = "main", one.min_count = 0;
      const std::size_t kind = kind_of(work, Namespace(item.ns), one);
      for (std::int32_t i = 0; i < set.count && pending.size() < kMostPendingPods; ++i)
        pending.push_back({fmt::format("{}/{}/{}", uid, set.name, i), kind, false, Duration{0}, {}});
    }
  }
}

void ViewBuilder::add_limits(const Pool& pool, consolidate::Pool& out) const {
  const auto usage = facts_.usage();
  const auto found = usage.find(pool.name);
  const Usage used = found == usage.end() ? Usage{} : found->second;
  const auto amounts = amounts_of(used);
  std::map<std::string, std::int64_t> limits = pool.other_limits;
  if (pool.limit_cpu_milli >= 0) limits["cpu"] = pool.limit_cpu_milli;
  if (pool.limit_memory_bytes >= 0) limits["memory"] = pool.limit_memory_bytes;
  if (pool.limit_gpus >= 0) limits[std::string(words::kGpuResource)] = pool.limit_gpus;
  for (const auto& [resource, limit] : limits) {
    const auto at = amounts.find(resource);
    out.left[resource] = limit - (at == amounts.end() ? 0 : at->second);
  }
  if (pool.limit_nodes >= 0) out.left[std::string(kNodes)] = pool.limit_nodes - used.instances;
}

void ViewBuilder::add_pools(Work& work) const {
  auto& view = work.view;
  std::vector<DemandUpdated::Item> items;
  items.reserve(view.sets.size());
  std::vector<JointPlanner::Pending> pods;
  std::vector<std::size_t> kinds;
  JointPlanner::Items planned;
  for (std::size_t kind = 0; kind < view.sets.size(); ++kind) {
    DemandUpdated::Item item{{WorkloadUid(fmt::format("kind-{}", kind)), 1}, {view.sets[kind]}, 0, state_.now};
    item.ns = view.namespaces[kind].value();
    if (!joint_.plans(item)) continue;
    items.push_back(std::move(item));
    pods.push_back({planned.size(), 0});
    planned.push_back(&items.back());
    kinds.push_back(kind);
  }
  const auto launch_from = offers_.pools_in_order();
  std::vector<const Pool*> all = launch_from;
  for (const auto& [name, pool] : tables_.pools) {
    if (std::ranges::find(all, &pool) == all.end()) all.push_back(&pool);
  }
  for (const Pool* pool : all) {
    consolidate::Pool& out = view.problem.pools.emplace_back();
    view.launchables.push_back({pool, {}});
    out.name = pool->name;
    out.disruptions = work.left[pool->name];
    const bool launches = options_.provider && pool->group.empty() && pool->min_values.empty() && !planned.empty() &&
                          std::ranges::find(launch_from, pool) != launch_from.end();
    if (!launches) continue;
    auto made = joint_.problem_of(*pool, JointPlanner::Types::kWithoutFault, planned, pods);
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      auto& packed = view.problem.kinds[kinds[i]].on_new_node;
      if (!packed) packed = std::move(made.problem.pods[i]);
    }
    out.node = std::move(made.problem.pool);
    out.types = std::move(made.problem.types);
    view.launchables.back().types = std::move(made.types);
    add_limits(*pool, out);
    for (const auto& type : view.launchables.back().types) {
      Usage one;
      one.add(*type.type, 1);
      out.uses.push_back(amounts_of(one));
      auto& hazards = out.hazards.emplace_back();
      for (const Offering& offering : type.offerings) hazards.push_back(hazard(work, offering));
    }
  }
}

void ViewBuilder::sum_digest(Work& work) const {
  Digest digest;
  const auto& problem = work.view.problem;
  for (const auto& node : problem.nodes) {
    digest.add(node.view.name.value());
    digest.add(node.held);
    digest.add(node.per_hour.nano());
    digest.add(static_cast<std::int64_t>((node.accepts ? 1 : 0) + (node.fresh ? 2 : 0)));
    for (const auto& pod : node.pods) digest.add(pod.name);
  }
  for (const auto& pool : problem.pools) {
    digest.add(pool.name);
    digest.add(pool.disruptions);
    for (const auto& [resource, left] : pool.left) digest.add(left);
    for (const auto& type : pool.types) {
      for (const auto& offering : type.offerings) digest.add(text_of_offering(type, offering));
    }
  }
  for (const auto& pod : problem.pending) digest.add(pod.name);
  for (const auto& [budget, allowed] : problem.evictions) digest.add(allowed);
  work.view.digest = digest.value();
}

ClusterView ViewBuilder::build(const ConsolidationRow* own) const {
  Work work;
  work.own = own;
  work.planned = facts_.planned();
  work.hazards = facts_.hazards(state_.now);
  const auto delayed_until = ScaleDownDelay(state_).until();
  work.delayed = delayed_until && state_.now < *delayed_until;
  for (const auto& [name, c] : tables_.claims) {
    if (facts_.node_of(c) != nullptr && facts_.details_of(c) != nullptr) work.claims.emplace(c.node, name);
  }
  for (const auto& [id, attempt] : tables_.attempts) {
    for (const auto& node : attempt.nodes) work.attempts[node].push_back(id);
  }
  std::vector<ClaimName> names;
  auto disrupted = disruptions_.problem(state_.now, names);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (work.owns(names[i], *tables_.claims.find(names[i]))) disrupted.nodes[i].disrupted = false;
    if (disrupted.nodes[i].disrupted) work.disrupted.insert(names[i]);
  }
  work.left = disruptions_left(disrupted, DisruptionReason::kUnderutilized, next_in_utc);
  const bool scheduled = std::ranges::any_of(disrupted.pools, [](const DisruptionPool& pool) {
    return std::ranges::any_of(pool.budgets, [](const Budget& budget) { return !budget.schedule.empty(); });
  });
  if (scheduled && !names.empty())
    work.wake(state_.now, std::chrono::ceil<std::chrono::minutes>(state_.now + std::chrono::microseconds(1)));
  auto& rules = work.view.problem.rules;
  rules.horizon = options_.consolidation_horizon;
  rules.restart = options_.consolidation_restart;
  rules.least_share = options_.consolidation_saving;
  rules.node_price = static_cast<double>(options_.node_price.nano()) / kNanoPerUsd;
  add_nodes(work);
  add_pending(work);
  add_pools(work);
  sum_digest(work);
  return std::move(work.view);
}

}  // namespace qm::autoscaler
