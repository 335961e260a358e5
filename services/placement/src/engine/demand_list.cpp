// The demand list.
#include "engine/demand_list.hpp"

#include "qm/kube_rules/text.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

namespace qm::placement {
namespace {

/// Gangs whose room is searched for, the first by priority: each search is a placement.
constexpr std::size_t kMostGangs = 32;

/// Whether pods of the set may be split between running and new nodes: nothing binds them to one part of the fleet or
/// to each other's nodes. Anti-affinity holds on new nodes too.
bool may_be_split(const PodSet& set, const std::string& rules) {
  const auto& topology = set.topology;
  const bool bound = !topology.required.empty() || !topology.slice.empty() || !topology.group.empty();
  if (bound || topology.exclusive) return false;
  const auto like = rules.empty() ? std::nullopt : rules::template_of(rules);
  return !like || (like->rules.affinity.empty() && like->rules.spread.empty());
}

std::int64_t pods_of(const std::vector<PodSet>& sets) {
  return std::accumulate(sets.begin(), sets.end(), std::int64_t{0},
                         [](auto sum, const auto& s) { return sum + s.count; });
}

}  // namespace

bool DemandList::requests_nodes(const WorkloadUid& uid) const {
  const Proposal* proposal = tables_.proposals.find(uid);
  const bool preempts = proposal != nullptr && proposal->state == ProposalState::kAccepted;
  return !preempts && !index_.reservations.rows(HoldSource::kRepartition).contains(uid);
}

std::size_t DemandList::demand_size() const {
  const auto pending = std::ranges::count_if(index_.short_of, [this](const auto& uid) { return requests_nodes(uid); });
  return static_cast<std::size_t>(pending) + index_.unplaced.size();
}

std::vector<DemandItem> DemandList::demand() const {
  std::vector<DemandItem> items;
  for (const WorkloadUid& uid : index_.short_of) {
    if (!requests_nodes(uid)) continue;
    const Workload& workload = *tables_.workloads.find(uid);
    items.push_back({{uid, workload.attempt},
                     recovery_.missing_of(uid),
                     workload.spec.priority,
                     workload.short_since,
                     workload.spec.checkpoints});
  }
  find_room(items);
  for (const WorkloadUid& uid : index_.unplaced) {
    const Workload& workload = *tables_.workloads.find(uid);
    items.push_back({{uid, workload.attempt},
                     elastic_.unplaced_pods(uid),
                     workload.spec.priority,
                     workload.unplaced.since,
                     workload.spec.checkpoints,
                     true});
  }
  return items;
}

void DemandList::find_room(std::vector<DemandItem>& items) const {
  std::vector<DemandItem*> gangs;
  for (DemandItem& item : items) {
    const Proposal* row = tables_.proposals.find(item.id.uid);
    const bool recovers = row != nullptr && row->state == ProposalState::kRecovering;
    if (pods_of(item.pod_sets) > 1 && !recovers) gangs.push_back(&item);
  }
  if (gangs.empty()) return;
  std::ranges::sort(gangs, [](const DemandItem* a, const DemandItem* b) {
    return std::tuple(-a->priority, a->since, a->id) < std::tuple(-b->priority, b->since, b->id);
  });
  gangs.resize(std::min(gangs.size(), kMostGangs));
  std::vector<PodShape> shapes;
  for (const DemandItem* item : gangs) {
    for (const PodSet& set : item->pod_sets) {
      if (std::ranges::find(shapes, set.shape) == shapes.end()) shapes.push_back(set.shape);
    }
  }
  // In a fleet that is short of capacity few nodes have room: only these are copied.
  FreeCapacity free_capacity;
  for (const auto& [name, capacity] : index_.free_capacity) {
    const bool fits = std::ranges::any_of(
        shapes, [&](const PodShape& shape) { return pods_that_fit(capacity, shape) > 0 && admitted(capacity, shape); });
    if (fits) free_capacity.emplace(name, capacity);
  }
  if (free_capacity.empty()) return;
  Preference preference = index_.preference.scored_by_known_mix();
  preference.prepare(free_capacity);
  for (DemandItem* item : gangs) find_room(*item, free_capacity, preference);
}

// A gang that fits whole is pending for another reason than capacity: then nothing is known to fit.
void DemandList::find_room(DemandItem& item, FreeCapacity& free_capacity, const Preference& preference) const {
  const PlacementRequest request = allocator_.request_for(item.id.uid);
  std::map<std::string, std::vector<std::int32_t>> by_zone;
  std::vector<std::size_t> order(std::min(item.pod_sets.size(), request.pod_sets.size()));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t set) { return item.pod_sets[set].shape.gpu.total_milli(); });
  for (const std::size_t i : order) {
    const std::string rules = i < request.rules.size() ? request.rules[i] : std::string();
    if (!may_be_split(request.pod_sets[i], rules)) continue;
    PlacementRequest part{{item.pod_sets[i]}, {}, request.type, request.pool};
    part.pod_sets[0].min_count = 1;
    if (!request.rules.empty()) part.rules = {rules};
    if (!request.own_claims.empty()) part.own_claims = {request.own_claims[i]};
    const auto placed = allocator_.place(part, free_capacity, preference, nullptr, ResultDetail::kPlan);
    if (!placed.plan) continue;
    for (const Member& member : placed.plan->members) {
      auto& pods = by_zone[tables_.nodes.find(member.node)->facts.zone];
      pods.resize(item.pod_sets.size());
      ++pods[i];
    }
  }
  const auto total = [](const std::vector<std::int32_t>& pods) { return std::accumulate(pods.begin(), pods.end(), 0); };
  for (auto& [zone, pods] : by_zone) {
    if (total(pods) <= total(item.room)) continue;
    item.room = std::move(pods);
    item.room_zone = zone;
  }
  if (total(item.room) >= pods_of(item.pod_sets)) item.room.clear(), item.room_zone.clear();
}

}  // namespace qm::placement
