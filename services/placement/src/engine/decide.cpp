// Placement order: workloads with quota and without a placement, highest priority first, then longest on the
// demand list, then in the order in which admission gave them quota.
#include "engine/allocator/gang_request_builder.hpp"
#include "engine/allocator/mounts.hpp"
#include "engine/allocator/node_constraint.hpp"
#include "engine/allocator/rule_book_constraints.hpp"
#include "engine/allocator/volume_limits.hpp"
#include "engine/disruption/gang_recovery.hpp"
#include "qm/kube_rules/text.hpp"
#include "qm/placement/engine.hpp"
#include "qm/placement/nearness.hpp"

#include <algorithm>
#include <bit>

namespace qm::placement {
namespace {

constexpr std::int32_t kLastRound = 3;  // of offers to pending workloads

/// A total order. Of simultaneous requests the one that admission decided first comes first: it may have
/// preempted others for its quota. If a later one used its nodes, that one would be preempted again.
struct QueuePosition {
  std::int32_t priority;
  bool grows;  // it is running and scales up
  Instant since;
  Instant reserved;
  std::int32_t queue_position;
  WorkloadUid uid;
  friend bool operator<(const QueuePosition& a, const QueuePosition& b) {
    return std::tie(b.priority, a.grows, a.since, a.reserved, a.queue_position, a.uid) <
           std::tie(a.priority, b.grows, b.since, b.reserved, b.queue_position, b.uid);
  }
};

/// Excludes nodes with pods of a workload type that must not share nodes with this one, and GPUs of another
/// pool.
class WorkloadTypeIsolation final : public NodeConstraint {
 public:
  WorkloadTypeIsolation(std::uint32_t type, GpuPool pool, const std::vector<std::string>& names,
                        InterPodConstraints* others)
      : NodeConstraint(others), type_(type), pool_(pool), names_(names) {}

 private:
  [[nodiscard]] bool meets(const NodeName&, const NodeCapacity& capacity) const override {
    return strange(capacity) == 0 && !wrong_pool(capacity);
  }
  [[nodiscard]] std::string why_not(const NodeName&, const NodeCapacity& capacity) const override {
    if (const auto types = strange(capacity); types != 0)
      return fmt::format("with pods for {}", names_[static_cast<std::size_t>(std::countr_zero(types))]);
    return pool_ == GpuPool::kWhole ? "with GPUs in slices" : "with whole GPUs";
  }
  [[nodiscard]] std::uint32_t strange(const NodeCapacity& capacity) const {
    return type_ == 0 ? 0 : capacity.types & ~type_;
  }
  [[nodiscard]] bool wrong_pool(const NodeCapacity& capacity) const {
    return pool_ != GpuPool::kAny && capacity.slices != (pool_ == GpuPool::kSlices);
  }

  std::uint32_t type_;
  GpuPool pool_;
  const std::vector<std::string>& names_;
};

/// Limits a gang to one part of the fleet.
class PartConstraint final : public NodeConstraint {
 public:
  PartConstraint(const TopologyPart& part, InterPodConstraints* others) : NodeConstraint(others), part_(part) {}

 private:
  [[nodiscard]] bool meets(const NodeName& node, const NodeCapacity& capacity) const override {
    return part_.has(node, *capacity.facts);
  }
  [[nodiscard]] std::string why_not(const NodeName&, const NodeCapacity&) const override {
    return fmt::format("outside {}", part_.name);
  }

  const TopologyPart& part_;
};

/// Prefers fabric domains. A gang that fits one node has no network traffic. A gang on several nodes is
/// placed in one fabric domain, the fastest first, if as many of its pods fit there; else anywhere.
template <class Attempt>
PlacementResult place_near(const std::vector<PodSet>& pod_sets, FreeCapacity& free_capacity, Attempt&& attempt) {
  std::int64_t pods = 0, gpus = 0;
  for (const PodSet& set : pod_sets) pods += set.count, gpus += set.count * set.shape.gpu.whole;
  const bool uses_fabric = pods > 1 && gpus > 1 && std::ranges::any_of(free_capacity, [](const auto& node) {
                             return has_fabric(*node.second.facts);
                           });
  if (!uses_fabric) return attempt(free_capacity, nullptr);
  FreeCapacity tried = free_capacity;
  auto anywhere = attempt(tried, nullptr);
  const auto several = [&](const Plan& plan) {
    return std::ranges::any_of(plan.members, [&](const Member& m) { return m.node != plan.members.front().node; });
  };
  if (anywhere.plan && several(*anywhere.plan)) {
    gpus = 0;
    for (const Member& member : anywhere.plan->members)
      gpus += pod_sets[static_cast<std::size_t>(member.set)].shape.gpu.whole;
    for (const FabricDomain& domain : fabric_domains(free_capacity)) {
      if (domain.idle_gpus < gpus) continue;
      const TopologyPart part{fmt::format("fabric domain {}", domain.name),
                              [&](const NodeName&, const NodeFacts& facts) { return is_in(domain, facts); }};
      if (!is_elastic(pod_sets)) {
        auto inside = attempt(free_capacity, &part);
        if (inside.plan) return inside;
        continue;
      }
      FreeCapacity then = free_capacity;
      auto inside = attempt(then, &part);
      if (!inside.plan || inside.plan->members.size() < anywhere.plan->members.size()) continue;
      free_capacity = std::move(then);
      return inside;
    }
  }
  if (anywhere.plan) free_capacity = std::move(tried);
  return anywhere;
}

std::string workload_type_of(const Labels& labels) {
  const auto label = labels.find(std::string(kWorkloadType));
  return label == labels.end() ? std::string() : label->second;
}

}  // namespace

void Engine::decide_pending() {
  if (!synced()) return;  // the sync sets scratch_.grew again
  const bool all = scratch_.capacity_added;
  for (bool first = true; first || scratch_.constraints_changed; first = false) {
    const bool constraints_changed = std::exchange(scratch_.constraints_changed, false);
    scratch_.neighbors = scratch_.neighbors || constraints_changed;
    std::vector<QueuePosition> positions;
    scratch_.reservation_waiters.insert(scratch_.requested.begin(), scratch_.requested.end());
    const auto grows = [&](const WorkloadUid& uid) {
      const Workload& workload = *tables_.workloads.find(uid);
      const Instant since = tables_.assignments.find({uid, workload.attempt})->decided;
      positions.push_back(
          {workload.spec.priority, true, since, workload.quota_reserved, workload.quota_facts.queue_position, uid});
    };
    if (first && all) std::ranges::for_each(index_.below_size, grows);
    for (const WorkloadUid& uid :
         (first && all) || constraints_changed ? index_.without_placement : scratch_.reservation_waiters) {
      if (first && !all && index_.below_size.contains(uid)) grows(uid);
      if (!index_.without_placement.contains(uid)) continue;
      const Workload& workload = *tables_.workloads.find(uid);
      const bool asks = first && (all || scratch_.reservation_waiters.contains(uid));
      if (!asks && !index_.pods_with_rules.contains(uid) && !index_.affinity_waiters.contains(uid)) continue;
      const Instant since = workload.short_since == Instant{} ? scratch_.now : workload.short_since;
      positions.push_back(
          {workload.spec.priority, false, since, workload.quota_reserved, workload.quota_facts.queue_position, uid});
    }
    std::ranges::sort(positions, std::less<>());
    if (!positions.empty() || (first && all)) refresh_scores();
    std::map<PlacementRequest, std::string> known_unschedulable;  // free capacity only shrinks during this pass
    for (const QueuePosition& entry : positions) {
      if (!entry.grows) {
        decide(entry.uid, known_unschedulable);
      } else if (scale_up(entry.uid)) {
        forget_ruled(known_unschedulable);
      }
    }
  }
  scratch_.requested.clear();
  scratch_.reservation_waiters.clear();
}

/// Updates the scored mix from its row, which follows the known mix with a lag.
void Engine::refresh_scores() {
  if (index_.preference.has_drifted()) tables_.mix.insert(0, index_.preference.known());
  if (const DemandMix* mix = tables_.mix.find(0)) index_.preference.weigh(*mix);
}

PlacementResult Engine::place(const PlacementRequest& request, FreeCapacity& free_capacity,
                              const Preference& preference, Shortlists* lists, ResultDetail wanted,
                              const Where& where) const {
  if (request.pool == GpuPool::kSlices) {  // a preference, not a constraint
    if (auto placed = place_in(request, free_capacity, preference, lists, std::max(wanted, ResultDetail::kPlan), where);
        placed.plan)
      return placed;
    PlacementRequest migration_target = request;
    migration_target.pool = GpuPool::kAny;
    return place_in(migration_target, free_capacity, preference, lists, wanted, where);
  }
  return place_in(request, free_capacity, preference, lists, wanted, where);
}

Engine::RequestWithVolumes Engine::mounted(const PlacementRequest& request) const {
  RequestWithVolumes out{request.pod_sets, {}, {}, {}};
  for (std::size_t i = 0; i < request.rules.size() && out.blocked.empty(); ++i) {
    auto& like = out.likes.emplace_back(rules::template_of(request.rules[i]));
    if (!like || (like->rules.claims.empty() && like->rules.own_claims.empty())) continue;
    auto& set = out.pod_sets[i];
    auto mounts =
        mounts_of(tables_, *like, i < request.own_claims.size() ? request.own_claims[i] : std::vector<PodClaim>());
    if (!mounts.blocked.empty()) {
      const auto which = out.pod_sets.size() > 1 ? fmt::format("pod set {}: ", set.name) : std::string();
      out.blocked = fmt::format("{}0 of {} pods fit: {}", which, set.count, mounts.blocked);
    }
    std::ranges::move(mounts.reach, std::back_inserter(like->rules.volumes));
    if (mounts.one_node.empty() || set.count < 2) continue;
    out.one_node = mounts.one_node;
    set.topology = {.required = std::string(kHostname)};
  }
  return out;
}

PlacementResult Engine::place_in(const PlacementRequest& request, FreeCapacity& free_capacity,
                                 const Preference& preference, Shortlists* lists, ResultDetail wanted,
                                 const Where& where) const {
  const auto& [asked_sets, rules, type, pool, own_claims] = request;
  const RequestWithVolumes mounts = mounted(request);
  const auto& [pod_sets, likes, one_node, blocked] = mounts;
  if (!blocked.empty()) return {std::nullopt, {blocked}};
  // Within one part of the fleet, or anywhere.
  const auto place_sets = [&, &templates = likes, bound = !one_node.empty(), &asked_rules = rules, asked_type = type,
                           asked_pool = pool](const std::vector<PodSet>& sets, FreeCapacity& among,
                                              const TopologyPart* within, ResultDetail what) {
    std::optional<RuleBookConstraints> constraints;
    if (!asked_rules.empty()) constraints.emplace(*index_.book, templates);
    InterPodConstraints* inter_pod = constraints ? &*constraints : nullptr;
    std::optional<VolumeLimits> attaching;
    if (constraints && attaching.emplace(*this, templates, sets, &among, inter_pod).matters()) inter_pod = &*attaching;
    std::optional<WorkloadTypeIsolation> apart;
    if (asked_type != 0 || asked_pool != GpuPool::kAny)
      inter_pod = &apart.emplace(asked_type, asked_pool, options_.apart, inter_pod);
    std::optional<PartConstraint> inside, bounds;
    if (within != nullptr) inter_pod = &inside.emplace(*within, inter_pod);
    if (where.part != nullptr) inter_pod = &bounds.emplace(*where.part, inter_pod);
    if (where.recovery != nullptr) return place_in_recovery(sets, *where.recovery, among, preference, inter_pod, what);
    if (has_topology(sets)) return place_in_topology(sets, among, preference, options_.topology, inter_pod, what);
    if (lists == nullptr || constraints || within != nullptr || where.part != nullptr || bound)
      return place_gang(sets, among, preference, inter_pod, nullptr, what);
    const ShortlistView kept{*lists, asked_type, asked_pool};
    return place_gang(sets, among, preference, inter_pod, &kept, what);
  };
  const auto attempt = [&, &sets = pod_sets, &templates = likes](FreeCapacity& among, const TopologyPart* within) {
    // An elastic gang gets better placements if all pods are requested at once than with the minimum first.
    // Pods that are placed one by one get the same placements either way.
    const bool alike =
        sets.size() == 1 && !templates.empty() && templates[0] && RuleBookConstraints::one_by_one(templates[0]->rules);
    if (is_elastic(sets) && (!alike || where.recovery != nullptr) &&
        (where.recovery != nullptr || !has_topology(sets))) {
      auto whole = sets;
      for (PodSet& set : whole) set.min_count = 0;
      if (auto placed = place_sets(whole, among, within, std::max(wanted, ResultDetail::kPlan)); placed.plan)
        return placed;
    }
    return place_sets(sets, among, within, wanted);
  };
  // The fabric matters only for the choice of nodes.
  const bool anywhere = where.recovery != nullptr || wanted == ResultDetail::kWhether;
  auto placed = anywhere ? attempt(free_capacity, nullptr) : place_near(pod_sets, free_capacity, attempt);
  if (!placed.plan && !one_node.empty()) {
    placed.shortfall.reason =
        fmt::format("claim {} is used on one node at a time: {}", one_node, placed.shortfall.reason);
  }
  if (!placed.plan) return placed;
  for (const Member& member : placed.plan->members) {
    const PodSet& set = asked_sets[static_cast<std::size_t>(member.set)];
    NodeCapacity& capacity = free_capacity.at(member.node);
    capacity.types |= type;
    capacity.gpu_pods = capacity.gpu_pods || !set.shape.gpu.none();
    capacity.alone = capacity.alone || set.topology.exclusive;
  }
  return placed;
}

std::uint32_t Engine::type_of(std::string_view workload_type) const {
  const auto found = std::ranges::find(options_.apart, workload_type);
  return found == options_.apart.end() ? 0 : std::uint32_t{1} << (found - options_.apart.begin());
}

// A workload that names GPU models or NVIDIA labels has chosen; the default pool is for the others.
GpuPool Engine::pool_of(const Labels& labels, const std::vector<PodSet>& pod_sets) const {
  const auto pool = options_.pools.find(workload_type_of(labels));
  if (pool == options_.pools.end()) return GpuPool::kAny;
  const bool asks = std::ranges::any_of(pod_sets, [](const PodSet& set) { return set.shape.gpu.whole > 0; });
  const bool chose = std::ranges::any_of(pod_sets, [](const PodSet& set) {
    return !set.shape.gpu.models.empty() || std::ranges::any_of(set.shape.node_selector, [](const auto& label) {
      return label.first.starts_with("nvidia.com/");
    });
  });
  return asks && !chose ? pool->second : GpuPool::kAny;
}

/// A new pod may satisfy the inter-pod rules of other workloads.
void Engine::forget_ruled(std::map<PlacementRequest, std::string>& known_unschedulable) {
  std::erase_if(known_unschedulable, [](const auto& known) { return !known.first.rules.empty(); });
}

/// Updates the free capacity after these members were placed.
void Engine::reserve_places(const AttemptId& id, std::span<const Member> members) {
  for (const Member& member : members) {
    book_node(member.node);
    index_.lists.touch(member.node);
    // Zones of pods without devices may differ when all pods are counted again in order.
    if (NodeCapacity& capacity = index_.free_capacity.at(member.node);
        !capacity.zones.empty() || is_spare(*capacity.facts))
      capacity = capacity_of(member.node);
  }
  scratch_.attempts.insert(id);
}

void Engine::decide(const WorkloadUid& uid, std::map<PlacementRequest, std::string>& known_unschedulable) {
  const Workload& workload = *tables_.workloads.find(uid);
  const AttemptId id{uid, workload.attempt};
  const Assignment* old = tables_.assignments.find(id);

  Assignment next = assignment_for(workload.spec);
  next.decided = scratch_.now;
  next.revision = old == nullptr ? 0 : old->revision;
  next.rules = rules_of(id, next.pod_sets);
  const PlacementRequest request = request_for(uid);
  PlacementResult placed;
  const bool wants_reason = old == nullptr || scratch_.requested.contains(uid);  // a retry keeps the published reason
  const auto wanted = wants_reason ? ResultDetail::kReason : ResultDetail::kPlan;
  auto hypothetical = release_holds(uid);
  bool instead = false;  // replaces planned migrations
  if (auto returned = place_recovery(uid, request); returned.plan) {
    placed = std::move(returned);
  } else if (const auto known = known_unschedulable.find(request);
             known != known_unschedulable.end() && hypothetical.empty() && (!wants_reason || !known->second.empty())) {
    placed.shortfall.reason = known->second;
  } else {
    if (moves(uid)) placed = place_at(uid, tables_.proposals.find(uid)->places);
    if (!placed.plan) placed = place(request, index_.free_capacity, index_.preference, &index_.lists, wanted);
    if (!placed.plan && !index_.defrag_nodes.empty()) {
      hypothetical = release_holds(uid, true);
      placed = place(request, index_.free_capacity, index_.preference, &index_.lists, wanted);
      instead = placed.plan.has_value();
    }
    if (!placed.plan) known_unschedulable[request] = placed.shortfall.reason;
  }
  if (placed.plan) {
    forget_ruled(known_unschedulable);
    next.state = AssignmentState::kReserved;
    next.members = std::move(placed.plan->members);
    next.expires = scratch_.now + options_.hold;
    if (workload.quota_reserved != Instant{} && workload.quota_reserved <= scratch_.now) {
      scratch_.out.notes.decided_after.push_back(scratch_.now - workload.quota_reserved);
    }
    set_short(uid, false);
    store(id, std::move(next));
    forget_proposal(uid);
    if (instead) end_defrag("CapacityUsedByOthers"), known_unschedulable.clear();
    end_repartition(uid);
    restore_holds(hypothetical);
    if (!hypothetical.empty())
      scratch_.proposals_to_recheck.insert(index_.with_proposal.begin(), index_.with_proposal.end());
    reserve_places(id, tables_.assignments.find(id)->members);
    return;
  }
  restore_holds(hypothetical);
  set_short(uid, true);
  if (!wants_reason) return;
  next.state = AssignmentState::kShort;
  next.short_reason = std::move(placed.shortfall.reason);
  store(id, std::move(next));
  scratch_.changed.insert(id);
}

PlacementRequest Engine::request_of(const std::vector<PodSet>& pod_sets, const WorkloadUid& uid) const {
  const Workload* workload = tables_.workloads.find(uid);
  if (workload == nullptr) return {pod_sets, rules_of({}, pod_sets)};
  const Labels& labels = workload->spec.labels;
  const AttemptId id{uid, workload->attempt};
  return {pod_sets, rules_of(id, pod_sets), type_of(workload_type_of(labels)), pool_of(labels, pod_sets),
          own_claims_of(id, pod_sets)};
}

PlacementRequest Engine::request_for(const WorkloadUid& uid) const {
  auto request = request_of(tables_.workloads.find(uid)->spec.pod_sets, uid);
  request.rules = effective_rules(request.pod_sets, std::move(request.rules));
  return request;
}

// A workload in back-off stays on the demand list until its pods fit. It then moves to the requeue list, and
// admission ends its back-off. The first offer goes to as many workloads as fit together. Some of them may
// get no quota, so the capacity that they leave is offered to the next ones in rounds, each eight times as
// large, until no free capacity is of use to a pending workload. The fourth round offers it to all. So every
// workload that can use the capacity is offered it within a second; and if a workload uses it, few others
// were tried in vain.
void Engine::offer_to_pending() {
  if (!synced()) return;
  const Instant due = meta().requeue_at;
  const bool is_due = due != Instant{} && due <= scratch_.now;
  if (scratch_.neighbors || scratch_.constraints_changed)
    scratch_.backoff_retries.insert(index_.pending_with_rules.begin(), index_.pending_with_rules.end());
  if (scratch_.capacity_added) {
    requeue_fitting(index_.short_of, 0);
  } else if (!scratch_.backoff_retries.empty()) {
    requeue_fitting(scratch_.backoff_retries, 0);
  }
  if (!is_due) return;
  tables_.meta.edit(0).requeue_at = {};
  const auto round = meta().requeue_round + 1;
  tables_.meta.edit(0).requeue_round = requeue_fitting(index_.short_of, round) ? round : 0;
}

bool Engine::requeue_fitting(const std::set<WorkloadUid>& pending, std::int32_t round) {
  std::vector<QueuePosition> positions;
  for (const WorkloadUid& uid : pending) {
    const Workload* workload = tables_.workloads.find(uid);
    if (workload != nullptr && workload->phase == WorkloadPhase::kPending && workload->short_since != Instant{})
      positions.push_back({workload->spec.priority, false, workload->short_since, {}, 0, uid});
  }
  if (positions.empty()) return false;
  std::ranges::sort(positions, std::less<>());
  const std::size_t most = round == 0 || round >= kLastRound ? positions.size() : std::size_t{1} << (3 * round);
  std::set<PlacementRequest> known_unschedulable;
  std::set<NodeName> offered;
  std::size_t count = 0;
  const auto free_again = [&](const NodeName& node) { set_capacity(node, capacity_of(node)); };
  for (const QueuePosition& entry : positions) {
    if (count == most) break;
    const PlacementRequest request = request_for(entry.uid);
    if (known_unschedulable.contains(request) && !index_.repartitioned_for.contains(entry.uid)) continue;
    // Capacity repartitioned for it is available to it with or without quota.
    const auto hypothetical =
        index_.repartitioned_for.contains(entry.uid) ? release_holds(entry.uid) : std::vector<NodeName>();
    const auto placed = place(request, index_.free_capacity, index_.preference, &index_.lists, ResultDetail::kPlan);
    restore_holds(hypothetical);
    if (!placed.plan) {
      if (hypothetical.empty()) known_unschedulable.insert(request);
      continue;
    }
    ++count;
    set_short(entry.uid, false);
    tables_.workloads.edit(entry.uid).fits_since = scratch_.now;
    index_workload(entry.uid);
    scratch_.requeue = true;
    for (const Member& member : placed.plan->members) {
      index_.lists.touch(member.node);
      offered.insert(member.node);
    }
    if (round != 0) std::ranges::for_each(std::exchange(offered, {}), free_again);
  }
  std::ranges::for_each(offered, free_again);
  if (count == 0) return false;
  if (meta().requeue_at == Instant{}) tables_.meta.edit(0).requeue_at = scratch_.now + options_.requeue_pause;
  return true;
}

void Engine::set_short(const WorkloadUid& uid, bool is_short) {
  const Workload& workload = *tables_.workloads.find(uid);
  if ((workload.short_since != Instant{}) == is_short) return;
  tables_.workloads.edit(uid).short_since = is_short ? scratch_.now : Instant{};
  index_workload(uid);
  scratch_.demand = true;
}

std::vector<std::string> Engine::compared(const std::vector<PodSet>& pod_sets,
                                          const std::vector<Member>& members) const {
  return placement::compared(pod_sets, members, index_.free_capacity);
}

}  // namespace qm::placement
