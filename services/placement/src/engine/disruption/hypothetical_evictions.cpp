#include "engine/disruption/hypothetical_evictions.hpp"

#include <algorithm>

namespace qm::placement {

plan::Devices mask_of(const std::vector<DeviceRef>& devices) {
  plan::Devices out = 0;
  for (const DeviceRef& device : devices) out = static_cast<plan::Devices>(out | 1U << device.index);
  return out;
}

std::vector<DeviceRef> devices_in(const NodeName& node, plan::Devices mask, std::int32_t milli) {
  std::vector<DeviceRef> out;
  for (std::int32_t index = 0; index < std::int32_t{pack::kMaxDevices}; ++index) {
    if ((mask >> index & 1U) != 0) out.push_back({node, index, {}, milli, {}});
  }
  return out;
}

std::vector<HeldCapacity> places_of(const std::vector<Member>& members) {
  std::vector<HeldCapacity> out;
  for (const Member& member : members) out.push_back({member.set, member.index, member.node, member.devices});
  return out;
}

std::int64_t lost_gpu_ms(const plan::ClusterModel& model, plan::GangId gang, Instant now) {
  const auto& one = model.gang(gang);
  return model.gpu_milli(gang) * (std::max(Duration{}, now - one.checkpoint) + one.restart).count() / 1'000'000;
}

HypotheticalEvictions::HypotheticalEvictions(const State& state, const Capacities& capacities,
                                             std::set<AttemptId> attempts, std::set<WorkloadUid> holds)
    : state_(state),
      capacities_(capacities),
      hypothetical_{.attempts = std::move(attempts), .holds = std::move(holds), .defrag = true} {
  for (const AttemptId& id : hypothetical_.attempts) {
    const Assignment& row = *state.tables.assignments.find(id);
    for (std::size_t i = 0; i < row.members.size(); ++i) {
      if (row.members[i].live()) there_[row.members[i].node].emplace_back(id, i);
    }
  }
  drop_misfits();
}

NodeCapacity HypotheticalEvictions::capacity(const NodeName& name) const {
  const auto& index = state_.index;
  if (there_.contains(name) || index.reservations.holds(HoldSource::kProposal, name) ||
      index.reservations.holds(HoldSource::kDefragmentation, name))
    return capacities_.capacity_of(name, hypothetical_);
  return state_.index.free_capacity.at(name);
}

/// The cluster model requires consistent devices: attempts whose devices or resources do not add up stay in place,
/// which leaves less capacity for the others.
void HypotheticalEvictions::drop_misfits() {
  for (std::set<AttemptId> misfits{AttemptId()}; !misfits.empty();) {
    misfits.clear();
    for (const auto& [name, members] : there_) {
      NodeCapacity left = state_.tables.nodes.contains(name) ? capacity(name) : NodeCapacity{};
      for (const auto& [id, position] : members) {
        const Assignment& row = *state_.tables.assignments.find(id);
        const Member& member = row.members[position];
        const auto pod = class_of(row.pod_sets[static_cast<std::size_t>(member.set)].shape);
        left.cpu_milli -= pod.cpu_milli;
        left.memory_bytes -= pod.memory_bytes;
        bool fits = --left.pods >= 0 && left.cpu_milli >= 0 && left.memory_bytes >= 0 &&
                    left.free_milli.size() <= pack::kMaxDevices && std::ssize(member.devices) == pod.gpus;
        for (const DeviceRef& device : member.devices) {
          const auto index = static_cast<std::size_t>(device.index);
          fits = fits && index < left.free_milli.size() && device.milli == pod.gpu_milli &&
                 (left.free_milli[index] -= device.milli) >= 0;
        }
        if (!fits) misfits.insert(id);
      }
    }
    for (const AttemptId& id : misfits) hypothetical_.attempts.erase(id);
    for (auto& [name, members] : there_) {
      std::erase_if(members, [&](const MemberRef& ref) { return misfits.contains(ref.first); });
    }
  }
}

pack::NodeState HypotheticalEvictions::state_of(const NodeCapacity& capacity, const Preference& preference) {
  auto state = preference.state_of(capacity);
  for (std::size_t i = 0; i < capacity.free_milli.size(); ++i)
    state.free[i] = static_cast<std::uint16_t>(capacity.free_milli[i]);
  return state;
}

plan::Gang HypotheticalEvictions::gang(const AttemptId& id, const std::map<NodeName, plan::NodeId>& numbers) const {
  const Assignment& row = *state_.tables.assignments.find(id);
  const Workload* workload = state_.tables.workloads.find(id.uid);
  plan::Gang gang;
  gang.name = id.to_string();
  if (workload != nullptr) {
    gang.priority = workload->spec.priority;
    gang.min_runtime_until = workload->quota_facts.min_runtime_until;
  }
  for (const PodSet& set : row.pod_sets) gang.request.gang.sets.push_back({class_of(set.shape), set.count});
  for (const Member& member : row.members) {
    if (member.live())
      gang.placements.push_back({member.set, member.index, numbers.at(member.node), mask_of(member.devices)});
  }
  std::ranges::sort(gang.placements);
  gang.checkpoint = work_since(state_.tables, id);
  gang.restart = state_.options.preemption.restart;
  return gang;
}

bool HypotheticalEvictions::seat(const State& state, const Capacities& capacities, const Allocator& allocator,
                                 DefragStep& step, HypotheticalState& hypothetical, FreeCapacity& free_capacity) {
  for (const auto& move : step.moves) {
    hypothetical.attempts.insert(move.id);
    hypothetical.holds.insert(move.id.uid);
    for (const Member& member : state.tables.assignments.find(move.id)->members) {
      if (free_capacity.contains(member.node)) return false;  // another gang was placed on it in this plan
    }
  }
  for (auto& move : step.moves) {
    FreeCapacity there;
    for (const HeldCapacity& place : move.places) {
      if (!state.tables.nodes.contains(place.node)) return false;
      const auto capacity = free_capacity.find(place.node);
      there.emplace(place.node, capacity == free_capacity.end() ? capacities.capacity_of(place.node, hypothetical)
                                                                : capacity->second);
    }
    const auto placed = allocator.place(allocator.request_for(move.id.uid), there, state.index.preference);
    if (!placed.plan) return false;
    for (auto& [name, capacity] : there) free_capacity[name] = std::move(capacity);
    move.places = places_of(placed.plan->members);
  }
  return true;
}

Instant HypotheticalEvictions::work_since(const Tables& tables, const AttemptId& id) {
  const Workload* workload = tables.workloads.find(id.uid);
  const Instant since =
      workload == nullptr ? Instant{} : std::max(workload->quota_facts.admitted, workload->quota_facts.saved);
  return since == Instant{} ? tables.assignments.find(id)->decided : since;
}

}  // namespace qm::placement
