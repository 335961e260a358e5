// Answers about hypothetical placements, and the fleet as numbers.
#include "engine/diagnosis/queries.hpp"

#include "engine/diagnosis/what_if.hpp"
#include "qm/placement/nearness.hpp"

#include <algorithm>

namespace qm::placement {

namespace {

Outline::Ask ask_of(const PodShape& shape) {
  Outline::Ask out{shape.cpu_milli, shape.memory_bytes, 0, 0, {}};
  const GpuShape& gpu = shape.gpu;
  if (gpu.whole == 0 && gpu.milli == 0) return out;
  out.gpus = gpu.milli > 0 ? 1 : static_cast<std::int32_t>(gpu.whole);
  out.gpu_milli = static_cast<std::int32_t>(gpu.milli > 0 ? gpu.milli : 1000);
  out.models = gpu.models;
  return out;
}

/// The node's complete capacity, whatever its MIG layout.
NodeCapacity without_pods(const NodeCapacity& capacity) {
  NodeCapacity out = capacity;
  const NodeFacts& facts = *capacity.facts;
  out.cpu_milli = facts.cpu_milli;
  out.memory_bytes = facts.memory_bytes;
  out.extended = facts.extended;
  out.pods = facts.pods ? *facts.pods : NodeCapacity().pods;
  std::ranges::fill(out.free_milli, 1000);
  out.instances.clear();
  for (std::size_t i = 0; i < out.zones.size(); ++i)
    out.zones[i] = {facts.numa.zones[i].cpu_milli, facts.numa.zones[i].memory_bytes};
  out.gpu_pods = out.alone = out.slices = false;
  out.types = 0;
  return out;
}

}  // namespace

PlacementResult Queries::dry_run(const PlacementRequest& request, const WorkloadUid& uid) const {
  const WhatIf what_if(state_, allocator_, capacities_, reservations_);
  std::optional<FreeCapacity> own;
  auto placed = what_if.place(request, what_if.free_capacity(uid, own));
  if (own || !placed.plan) return placed;
  for (const Member& member : placed.plan->members)
    index_.free_capacity.at(member.node) = capacities_.capacity_of(member.node);
  return placed;
}

Diagnosis Queries::diagnose(const std::vector<PodSet>& pod_sets, const WorkloadUid& uid) const {
  const WhatIf what_if(state_, allocator_, capacities_, reservations_);
  std::optional<FreeCapacity> own;
  return diagnose_request(allocator_.request_of(minimum_of(pod_sets), uid), what_if.free_capacity(uid, own), what_if);
}

Diagnosis Queries::diagnose_without_pods(const std::vector<PodSet>& pod_sets) const {
  if (std::ranges::any_of(pod_sets, [](const PodSet& set) { return set.shape.gpu.mig_count > 0; })) return {};
  const WhatIf what_if(state_, allocator_, capacities_, reservations_);
  FreeCapacity free_capacity;
  for (const auto& [name, capacity] : index_.free_capacity) free_capacity.emplace(name, without_pods(capacity));
  auto request = allocator_.request_of(minimum_of(pod_sets), {});
  request.rules.clear();
  return diagnose_request(request, free_capacity, what_if);
}

Outline Queries::outline() const {
  Outline out;
  for (const auto& [name, as_held] : index_.free_capacity) {
    // Held capacity counts as free.
    const auto holders = index_.reservations.rows_on(HoldSource::kProposal, name);
    const NodeCapacity capacity =
        holders.empty() && !index_.reservations.holds(HoldSource::kDefragmentation, name)
            ? as_held
            : capacities_.capacity_of(name, {.attempts = {}, .holds = holders, .defrag = true});
    Outline::NodeShape machine;
    machine.model = capacity.facts->model;
    if (capacity.usable) {
      machine.cpu_milli = std::max<std::int64_t>(capacity.cpu_milli, 0);
      machine.memory_bytes = std::max<std::int64_t>(capacity.memory_bytes, 0);
      machine.free_milli = capacity.free_milli;
    }
    if (const auto members = index_.members.find(name); members != index_.members.end()) {
      for (const auto& [id, position] : members->second) {
        const Assignment& row = *tables_.assignments.find(id);
        const Member& member = row.members[position];
        auto ask = ask_of(row.pod_sets[static_cast<std::size_t>(member.set)].shape);
        machine.cpu_milli += ask.cpu_milli;
        machine.memory_bytes += ask.memory_bytes;
        if (ask.gpus > 0) {
          for (const DeviceRef& device : member.devices) {
            const auto index = static_cast<std::size_t>(std::max(device.index, 0));
            if (index >= machine.free_milli.size()) machine.free_milli.resize(index + 1, 0);
            machine.free_milli[index] = std::min(machine.free_milli[index] + device.milli, 1000);
          }
          if (!ask.models.empty() && std::ranges::find(ask.models, machine.model) == ask.models.end()) {
            ask.models.push_back(machine.model);
          }
        }
        ++out.pods[std::move(ask)].placed;
      }
    }
    std::erase(machine.free_milli, 0);
    std::ranges::sort(machine.free_milli, std::greater<>());
    if (machine.cpu_milli > 0 || !machine.free_milli.empty()) ++out.machines[std::move(machine)];
  }
  auto waiting = index_.short_of;
  waiting.insert(index_.without_placement.begin(), index_.without_placement.end());
  for (const WorkloadUid& uid : waiting) {
    for (const PodSet& set : tables_.workloads.find(uid)->spec.pod_sets)
      out.pods[ask_of(set.shape)].waiting += set.count;
  }
  return out;
}

}  // namespace qm::placement
