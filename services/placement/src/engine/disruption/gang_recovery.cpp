// Gang recovery. A gang that lost a node or a GPU keeps its other nodes for its next attempt, and pods go
// there by their ranks. Only the pods of the lost node get new nodes, as near to the others as possible; a
// spare node is preferred to a more distant one.
#include "engine/disruption/gang_recovery.hpp"

#include "engine/allocator/node_constraint.hpp"

#include <algorithm>

namespace qm::placement {

namespace {

/// Limits a gang to nodes with the label value.
class Inside final : public NodeConstraint {
 public:
  Inside(const RecoveryPlaces& recovery, InterPodConstraints* others) : NodeConstraint(others), recovery_(recovery) {}

 private:
  [[nodiscard]] bool meets(const NodeName&, const NodeCapacity& capacity) const override {
    if (recovery_.level.empty()) return true;
    const auto& labels = capacity.facts->labels;
    const auto label = labels.find(recovery_.level);
    return label != labels.end() && label->second == recovery_.value;
  }
  [[nodiscard]] std::string why_not(const NodeName&, const NodeCapacity&) const override {
    return fmt::format("outside {} {}", recovery_.level, recovery_.value);
  }

  const RecoveryPlaces& recovery_;
};

/// The common value of the label on all these nodes; empty if they differ.
std::string common(const std::string& level, std::span<const HeldCapacity> places, const FreeCapacity& free_capacity) {
  std::string value;
  for (const HeldCapacity& place : places) {
    const auto capacity = free_capacity.find(place.node);
    if (capacity == free_capacity.end()) continue;
    const auto label = capacity->second.facts->labels.find(level);
    if (label == capacity->second.facts->labels.end() || (!value.empty() && label->second != value)) return {};
    value = label->second;
  }
  return value;
}

/// Places each pod on its held node again if it still fits, and returns the other ranks by set.
std::pair<std::vector<Member>, std::vector<std::vector<std::int32_t>>> place_on_held(
    const std::vector<PodSet>& pod_sets, std::span<const HeldCapacity> places, FreeCapacity& free_capacity,
    const Preference& preference, InterPodConstraints* constraints) {
  std::vector<Member> members;
  std::vector<std::vector<std::int32_t>> ranks(pod_sets.size());
  for (std::size_t s = 0; s < pod_sets.size(); ++s) {
    for (std::int32_t rank = 0; rank < pod_sets[s].count; ++rank) ranks[s].push_back(rank);
  }
  for (const HeldCapacity& place : places) {
    const auto s = static_cast<std::size_t>(place.set);
    const auto capacity = free_capacity.find(place.node);
    if (capacity == free_capacity.end() || s >= pod_sets.size() || std::ranges::count(ranks[s], place.index) == 0)
      continue;
    const PodShape& shape = pod_sets[s].shape;
    if (!admitted(capacity->second, shape) || pods_that_fit(capacity->second, shape) == 0) continue;
    if (constraints != nullptr && !constraints->admits(s, place.node, capacity->second)) continue;
    auto& member = members.emplace_back();
    member.set = place.set, member.index = place.index, member.node = place.node;
    member.devices = preference.take(capacity->second, place.node, shape);
    if (constraints != nullptr) constraints->take(s, place.node);
    std::erase(ranks[s], place.index);
  }
  return {std::move(members), std::move(ranks)};
}

/// How many of the other ranks must be placed: all, or enough for the minimum.
std::int32_t still_needed(const PodSet& set, const std::vector<std::int32_t>& ranks) {
  const auto there = set.count - static_cast<std::int32_t>(ranks.size());
  return std::max(minimum_of(set) - there, 0);
}

}  // namespace

bool is_spare(const NodeFacts& facts) {
  const auto label = facts.labels.find(std::string(kSpareLabel));
  return label != facts.labels.end() && label->second == "true";
}

PlacementResult place_in_recovery(const std::vector<PodSet>& pod_sets, const RecoveryPlaces& recovery,
                                  FreeCapacity& free_capacity, const Preference& preference,
                                  InterPodConstraints* constraints, ResultDetail wanted) {
  auto [members, ranks] = place_on_held(pod_sets, recovery.places, free_capacity, preference, constraints);
  if (members.empty()) return {std::nullopt, {"none of the held places fits"}};
  auto rest = pod_sets;
  for (std::size_t s = 0; s < rest.size(); ++s) {
    rest[s].count = still_needed(pod_sets[s], ranks[s]);
    rest[s].min_count = 0;
    rest[s].topology = {.exclusive = pod_sets[s].topology.exclusive};
  }
  Inside inside(recovery, constraints);
  auto placed = place_gang(rest, free_capacity, preference, &inside, nullptr, wanted);
  if (!placed.plan) return placed;
  for (Member& member : placed.plan->members) {
    member.index = ranks[static_cast<std::size_t>(member.set)][static_cast<std::size_t>(member.index)];
    members.push_back(std::move(member));
  }
  std::ranges::sort(members, std::less<>(), [](const Member& m) { return std::pair(m.set, m.index); });
  return {Plan{std::move(members)}, {}};
}

void GangRecovery::hold_for_recovery(const AttemptId& id, const Assignment& row) {
  const Workload* workload = tables_.workloads.find(id.uid);
  const Proposal* known = tables_.proposals.find(id.uid);
  if (options_.returning == Duration{0} || workload == nullptr || workload->attempt > id.attempt + 1) return;
  if (known != nullptr && known->is_active()) return;
  // The next attempt may get other MIG instances; and topology slices and groups cannot be completed one pod
  // at a time.
  if (std::ranges::any_of(row.pod_sets, [](const PodSet& set) {
        return set.shape.gpu.mig_count > 0 || !set.topology.slice.empty() || !set.topology.group.empty();
      }))
    return;
  const auto lost = [&](const NodeName& name) {
    const Node* node = tables_.nodes.find(name);
    return node == nullptr || !node->facts.ready || !capacities_.own_causes(name).empty() ||
           (row.eviction && row.eviction->node == name);
  };
  Proposal next = known == nullptr ? Proposal{} : *known;
  bool any_lost = false;
  for (const Member& member : row.members) {
    if (workload->done.contains({member.set, member.index})) continue;
    if (member.lost && !(row.eviction && row.eviction->pods_lost)) continue;  // lost earlier; the gang continued
    if (lost(member.node)) {
      any_lost = true;
    } else if (member.live()) {
      next.places.push_back({member.set, member.index, member.node, member.devices});
    }
  }
  if (!any_lost || next.places.empty()) return;
  next.state = ProposalState::kRecovering;
  next.attempt = id.attempt;
  next.until = std::max(scratch_.now, workload->order_deadline) + options_.returning;
  ++scratch_.out.notes.proposals["Kept"];
  rows_.put_proposal(id.uid, std::move(next));
}

std::vector<PodSet> GangRecovery::missing_of(const WorkloadUid& uid) const {
  const auto& sets = tables_.workloads.find(uid)->spec.pod_sets;
  const Proposal* row = tables_.proposals.find(uid);
  if (row == nullptr || row->state != ProposalState::kRecovering) return minimum_of(sets);
  FreeCapacity free_capacity;
  for (const HeldCapacity& place : row->places) {
    if (tables_.nodes.contains(place.node))
      free_capacity.emplace(place.node, capacities_.capacity_of(place.node, {{}, {uid}}));
  }
  const auto ranks = place_on_held(sets, row->places, free_capacity, index_.preference, nullptr).second;
  auto missing = sets;
  for (std::size_t s = 0; s < sets.size(); ++s) {
    missing[s].count = still_needed(sets[s], ranks[s]);
    missing[s].min_count = 0;
  }
  std::erase_if(missing, [](const PodSet& set) { return set.count == 0; });
  return missing.empty() ? minimum_of(sets) : missing;
}

PlacementResult GangRecovery::place_recovery(const WorkloadUid& uid, const PlacementRequest& asked) {
  const Proposal* row = tables_.proposals.find(uid);
  if (row == nullptr || row->state != ProposalState::kRecovering) return {};
  const auto requires_level =
      std::ranges::find_if(asked.pod_sets, [](const PodSet& set) { return !set.topology.required.empty(); });
  const std::string required = requires_level == asked.pod_sets.end() ? "" : requires_level->topology.required;
  std::vector<std::string> levels(options_.topology.rbegin(), options_.topology.rend());
  if (const auto found = std::ranges::find(levels, required); found != levels.end()) {
    levels.erase(std::next(found), levels.end());
  } else {
    if (!required.empty()) levels.clear();
    levels.push_back(required);  // no level, or another label
  }
  std::vector<NodeName> spares;
  for (const auto& [name, node] : tables_.nodes) {
    if (is_spare(node.facts)) spares.push_back(name);
  }
  FreeCapacity with_spares = index_.free_capacity;
  for (const NodeName& name : spares) with_spares.at(name) = capacities_.capacity_of(name, {{}, {uid}, true});
  for (const std::string& level : levels) {
    const RecoveryPlaces recovery{row->places, level,
                                  level.empty() ? "" : common(level, row->places, index_.free_capacity)};
    if (!level.empty() && recovery.value.empty()) continue;
    for (const FreeCapacity* free_capacity : {&index_.free_capacity, spares.empty() ? nullptr : &with_spares}) {
      if (free_capacity == nullptr) continue;
      FreeCapacity tried = *free_capacity;
      auto placed =
          allocator_.place(asked, tried, index_.preference, nullptr, ResultDetail::kPlan, {&recovery, nullptr});
      if (!placed.plan) continue;
      for (const Member& member : placed.plan->members) rows_.set_capacity(member.node, tried.at(member.node));
      ++scratch_.out.notes.proposals["Returned"];
      return placed;
    }
  }
  return {};
}

}  // namespace qm::placement
