// The laws of the engine.
#include "engine/audit.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::placement {

void Audit::check_node(const NodeName& name) const {
  const auto on_node = index_.members.find(name);
  if (on_node == index_.members.end()) return;
  std::map<std::int32_t, std::int64_t> used;
  for (const auto& [id, position] : on_node->second) {
    for (const DeviceRef& device : tables_.assignments.find(id)->members[position].devices) {
      QM_ASSERT(device.node == name, "attempt {} has a device of {} on {}", id.to_string(), device.node, name);
      used[device.index] += device.milli;
    }
  }
  for (const auto& [device, milli] : used) {
    QM_ASSERT(milli <= 1000, "GPU {} of node {} is planned to {} milli", device, name, milli);
  }
  QM_ASSERT(tables_.nodes.contains(name), "node {} is gone and has live members", name);
}

void Audit::check_assignment(const AttemptId& id, const Assignment& row) const {
  if (!row.holds()) {
    QM_ASSERT(std::ranges::none_of(row.members, [](const Member& m) { return m.live(); }),
              "attempt {} is {} and has live members", id.to_string(), name_of(row.state));
    return;
  }
  QM_ASSERT(row.eviction || attempts_.ending_of(id) != Ending::kNone || attempts_.has_minimum(id, row),
            "attempt {} runs with fewer than its minimum", id.to_string());
  std::set<std::pair<std::int32_t, std::int32_t>> ranks;
  for (const Member& member : row.members) {
    const auto& set = row.pod_sets.at(static_cast<std::size_t>(member.set));
    QM_ASSERT(member.index >= 0 && member.index < set.count, "attempt {} has rank {} of {}", id.to_string(),
              member.index, set.count);
    QM_ASSERT(member.lost || ranks.emplace(member.set, member.index).second, "attempt {} has rank {} twice",
              id.to_string(), member.index);
    QM_ASSERT(!member.lost || !member.live(), "attempt {} rank {} is lost and live", id.to_string(), member.index);
    QM_ASSERT(!member.node.empty(), "attempt {} rank {} has no node", id.to_string(), member.index);
    const GpuShape& gpu = row.pod_sets[static_cast<std::size_t>(member.set)].shape.gpu;
    std::int64_t milli = 0;
    for (const DeviceRef& device : member.devices) milli += device.milli;
    QM_ASSERT(milli == gpu.whole * 1000 + gpu.milli, "attempt {} rank {} has {} milli", id.to_string(), member.index,
              milli);
    const bool in_progress = is_elastic(row.pod_sets) && !member.pod_uid.empty();
    QM_ASSERT(row.state != AssignmentState::kBound || member.bound != Instant{} || in_progress,
              "attempt {} is bound without all its pods", id.to_string());
  }
}

void Audit::run(const Lookups& rebuilt) const {
  QM_ASSERT(index_ == rebuilt, "the derived indexes differ from the tables");
  QM_ASSERT(demand_.demand_size() == demand_.demand().size(), "{} items of demand are counted, and there are {}",
            demand_.demand_size(), demand_.demand().size());
  for (const auto& [id, row] : tables_.assignments) check_assignment(id, row);
  for (const auto& [name, members] : index_.members) check_node(name);
  // On a copy, since a request updates the lists; and not while hardware shapes are not in the scored mix.
  if (!index_.preference.has_drifted()) Shortlists(index_.lists).audit(index_.free_capacity, index_.preference);
  QM_ASSERT(index_.free_capacity.size() == tables_.nodes.size(), "{} capacities for {} nodes",
            index_.free_capacity.size(), tables_.nodes.size());
  for (const auto& [name, node_capacity] : index_.free_capacity) {
    const auto booked = index_.booked.find(name);
    const auto claims = index_.claims.find(name);
    QM_ASSERT((claims == index_.claims.end() ? std::set<ClaimUse>() : claims->second) == book_.claims_on(name),
              "the claims of node {} differ from those of its pods", name);
    QM_ASSERT(booked != index_.booked.end() && booked->second == book_.booked_pods_on(name),
              "the rule book has other pods on node {} than its rows", name);
    const NodeCapacity now = capacities_.capacity_of(name);
    QM_ASSERT(node_capacity.facts == &tables_.nodes.find(name)->facts,
              "the free capacity of node {} refers to deleted facts", name);
    QM_ASSERT(node_capacity.number == index_.book->index_of(name) && node_capacity.slices == now.slices,
              "the free capacity of node {} has another number or other GPUs than its node", name);
    QM_ASSERT(now.usable == node_capacity.usable && now.cpu_milli == node_capacity.cpu_milli &&
                  now.memory_bytes == node_capacity.memory_bytes && now.free_milli == node_capacity.free_milli &&
                  now.extended == node_capacity.extended && now.pods == node_capacity.pods &&
                  now.instances == node_capacity.instances && now.zones == node_capacity.zones &&
                  now.types == node_capacity.types && now.gpu_pods == node_capacity.gpu_pods &&
                  now.alone == node_capacity.alone,
              "the cached capacity of node {} differs from its rows", name);
  }
}

}  // namespace qm::placement
