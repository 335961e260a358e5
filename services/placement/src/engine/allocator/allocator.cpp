// Placement of pods: node constraints, volumes, inter-pod rules, topology and fabric in one place.
#include "engine/allocator/allocator.hpp"

#include "engine/allocator/mounts.hpp"
#include "engine/allocator/node_constraint.hpp"
#include "engine/allocator/rule_book_constraints.hpp"
#include "engine/allocator/volume_limits.hpp"
#include "qm/kube_rules/text.hpp"
#include "qm/placement/nearness.hpp"

#include <algorithm>
#include <bit>

namespace qm::placement {

namespace {

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

std::vector<std::string> Allocator::rules_of(const AttemptId& id, const std::vector<PodSet>& pod_sets) const {
  std::vector<std::string> out(pod_sets.size());
  for (const Pod* pod : pods_.pods_of(id)) {
    const PodFacts& facts = pod->facts;
    const auto set =
        facts.pod_set.empty() ? pod_sets.begin() : std::ranges::find(pod_sets, facts.pod_set, &PodSet::name);
    if (set == pod_sets.end()) continue;
    auto& text = out[static_cast<std::size_t>(set - pod_sets.begin())];
    if (text.empty() && !facts.terminal()) text = facts.rules;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i].empty()) out[i] = pod_sets[i].rules;
  }
  if (std::ranges::all_of(out, [](const std::string& text) { return text.empty(); })) out.clear();
  return out;
}

std::vector<std::vector<PodClaim>> Allocator::own_claims_of(const AttemptId& id,
                                                            const std::vector<PodSet>& pod_sets) const {
  std::vector<std::vector<PodClaim>> out;
  for (const Pod* pod : pods_.pods_of(id)) {
    const PodFacts& facts = pod->facts;
    if (!rules::names_own_claims(facts.rules) || !facts.node.empty() || facts.terminal() || facts.deleting) continue;
    const auto set =
        facts.pod_set.empty() ? pod_sets.begin() : std::ranges::find(pod_sets, facts.pod_set, &PodSet::name);
    const auto like = rules::template_of(facts.rules);
    if (set == pod_sets.end() || !like) continue;
    out.resize(pod_sets.size());
    std::ranges::move(placement::own_claims_of(facts, *like),
                      std::back_inserter(out[static_cast<std::size_t>(set - pod_sets.begin())]));
  }
  for (auto& claims : out) std::ranges::sort(claims);
  return out;
}

std::vector<std::string> Allocator::effective_rules(const std::vector<PodSet>& pod_sets,
                                                    std::vector<std::string> rules) const {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const auto like = rules::template_of(rules[i]);
    if (!like) continue;
    if (!is_plain(like->rules) || like->labels.contains(std::string(kModelLabel)) ||
        !std::ranges::includes(pod_sets[i].shape.node_selector, like->rules.node_selector)) {
      return rules;
    }
    const auto id = index_.book->hold(*like);
    const bool away = index_.book->repelled(id);
    index_.book->release(id);
    if (away) return rules;
  }
  return {};
}

PlacementRequest Allocator::request_of(const std::vector<PodSet>& pod_sets, const WorkloadUid& uid) const {
  const Workload* workload = tables_.workloads.find(uid);
  if (workload == nullptr) return {pod_sets, rules_of({}, pod_sets)};
  const Labels& labels = workload->spec.labels;
  const AttemptId id{uid, workload->attempt};
  return {pod_sets, rules_of(id, pod_sets), type_of(options_, workload_type_of(labels)), pool_of(labels, pod_sets),
          own_claims_of(id, pod_sets)};
}

PlacementRequest Allocator::request_for(const WorkloadUid& uid) const {
  auto request = request_of(tables_.workloads.find(uid)->spec.pod_sets, uid);
  request.rules = effective_rules(request.pod_sets, std::move(request.rules));
  return request;
}

// A workload that names GPU models or NVIDIA labels has chosen; the default pool is for the others.
GpuPool Allocator::pool_of(const Labels& labels, const std::vector<PodSet>& pod_sets) const {
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

RequestWithVolumes Allocator::mounted(const PlacementRequest& request) const {
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

PlacementResult Allocator::place(const PlacementRequest& request, FreeCapacity& free_capacity,
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

PlacementResult Allocator::place_in(const PlacementRequest& request, FreeCapacity& free_capacity,
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
    if (constraints && attaching.emplace(tables_, index_.claims, templates, sets, &among, inter_pod).matters())
      inter_pod = &*attaching;
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

}  // namespace qm::placement
