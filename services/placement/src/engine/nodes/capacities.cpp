// The free capacity of a node: what is free of its devices, CPU and memory, and why pods may not be placed there.
#include "engine/nodes/capacities.hpp"

#include "engine/mig/node_layouts.hpp"
#include "qm/placement/numa.hpp"

#include <algorithm>

namespace qm::placement {

namespace {

/// mig-manager removes the GPUs and adds them again; until then the advertised resources match no layout.
bool manager_at_work(const NodeFacts& facts) {
  const auto state = facts.labels.find(std::string(kMigState));
  return state != facts.labels.end() && !state->second.empty() && state->second != "success" &&
         state->second != "failed";
}

/// The node lifecycle controller sets this taint on a node whose kubelet does not report.
bool is_unreachable(const NodeFacts& facts) {
  return std::ranges::any_of(facts.taints, [](const Taint& taint) {
    return taint.key == "node.kubernetes.io/unreachable" && taint.effect == "NoExecute";
  });
}

/// Adds the resources of a running pod to the free capacity.
void add_back(NodeCapacity& capacity, const PodShape& shape, const std::vector<DeviceRef>& devices) {
  capacity.cpu_milli += shape.cpu_milli;
  capacity.memory_bytes += shape.memory_bytes;
  ++capacity.pods;
  for (const auto& [resource, amount] : counted(shape)) capacity.extended[resource] += amount;
  for (const DeviceRef& device : devices) {
    const auto index = static_cast<std::size_t>(device.index);
    if (index < capacity.free_milli.size())
      capacity.free_milli[index] = std::min(1000, capacity.free_milli[index] + device.milli);
  }
  give_to_zones(capacity, shape, devices);
}

/// The minimum of both for each resource. Both are of the same node.
void at_most(NodeCapacity& capacity, const NodeCapacity& other) {
  const auto less = [](auto& mine, auto theirs) { mine = std::min(mine, theirs); };
  less(capacity.cpu_milli, other.cpu_milli);
  less(capacity.memory_bytes, other.memory_bytes);
  less(capacity.pods, other.pods);
  for (auto& [resource, amount] : capacity.extended) {
    const auto theirs = other.extended.find(resource);
    less(amount, theirs == other.extended.end() ? 0 : theirs->second);
  }
  for (std::size_t i = 0; i < capacity.free_milli.size(); ++i) less(capacity.free_milli[i], other.free_milli[i]);
  for (std::size_t i = 0; i < capacity.zones.size(); ++i) {
    less(capacity.zones[i].cpu_milli, other.zones[i].cpu_milli);
    less(capacity.zones[i].memory_bytes, other.zones[i].memory_bytes);
  }
}

/// "XID 79 ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS (recovery action: restart or replace the node)": without
/// the GPU index, so that equal faults are counted together.
std::string fault_text(const std::string& reason, bool cordon) {
  return fmt::format("{} (recovery action: {})", reason.substr(0, reason.find(" on GPU ")),
                     cordon ? "restart or replace the node" : "reset the GPU");
}

}  // namespace

// The GPU of the next instance is unknown.
bool cordons(const Node* node, const std::optional<HealthVerdict>& verdict) {
  if (!verdict || verdict->cordon) return verdict.has_value();
  const auto is_mig = [](const auto& resource) {
    return resource.first.starts_with(words::kMigPrefix) && resource.second > 0;
  };
  return node != nullptr && (counts_instances(node->facts) || std::ranges::any_of(node->facts.extended, is_mig));
}

std::string Capacities::own_causes(const NodeName& name) const {
  const NodeCordonCauses* mark = tables_.cordon_causes.find(name);
  std::string causes;
  const auto add = [&](std::string_view cause) { causes += fmt::format("{}{}", causes.empty() ? "" : ",", cause); };
  if (mark != nullptr && mark->drain) add("drain");
  if (mark != nullptr && cordons(tables_.nodes.find(name), mark->verdict())) add("health");
  if (layouts_.is_repartitioning(name)) add("layout");
  return causes;
}

/// Why no pods are placed on a cordoned node; equal for equal causes.
std::string Capacities::cordon_text(const NodeName& name) const {
  const Node& node = *tables_.nodes.find(name);
  const NodeCordonCauses* mark = tables_.cordon_causes.find(name);
  if (const auto verdict = mark == nullptr ? std::nullopt : mark->verdict(); cordons(&node, verdict)) {
    const auto gpu = verdict->gpus.find(verdict->gpu);
    return "cordoned after " + fault_text(verdict->reason, gpu == verdict->gpus.end() || gpu->second.cordon);
  }
  if (mark != nullptr && mark->drain) return fmt::format("cordoned for a drain: {}", mark->drain->reason);
  if (layouts_.is_repartitioning(name)) return "cordoned for a MIG layout order";
  return node.facts.cordoned_by.empty() ? "cordoned manually" : "cordoned, uncordon pending";
}

Instant Capacities::lost_at(const Node& node, const Member& member) const {
  const Pod* pod = member.pod_uid.empty() ? nullptr : tables_.pods.find(member.pod_uid);
  if (pod == nullptr || pod->facts.node != member.node || pod->facts.deleting || pod->facts.terminal())
    return node.not_ready_since + options_.node_timeout;
  const auto stays = is_unreachable(node.facts) ? pod->facts.unreachable_s : pod->facts.not_ready_s;
  return stays < 0 ? Instant::max() : node.not_ready_since + std::chrono::seconds(stays);
}

Instant Capacities::next_loss(const NodeName& name) const {
  Instant next = Instant::max();
  const auto on_node = index_.members.find(name);
  if (on_node == index_.members.end()) return next;
  const Node& node = *tables_.nodes.find(name);
  for (const auto& [id, position] : on_node->second)
    next = std::min(next, lost_at(node, tables_.assignments.find(id)->members[position]));
  return next;
}

std::vector<DeviceUse> Capacities::use_of(const NodeName& name, const HypotheticalState& hypothetical) const {
  const Node& node = *tables_.nodes.find(name);
  const auto shares = shares_of(node.facts);
  std::vector<DeviceUse> use(static_cast<std::size_t>(std::max(node.facts.gpus, node.facts.gpus_installed)));
  const auto add = [&](std::int32_t index, std::int32_t milli, const std::string& pod) {
    if (index < 0 || index > 1023) return;
    if (static_cast<std::size_t>(index) >= use.size()) use.resize(static_cast<std::size_t>(index) + 1);
    use[static_cast<std::size_t>(index)].used_milli += milli;
    use[static_cast<std::size_t>(index)].pods.push_back(pod);
  };
  const auto part = [&](std::int32_t index) {
    if (index >= 0 && static_cast<std::size_t>(index) < use.size()) use[static_cast<std::size_t>(index)].parted = true;
  };
  if (const auto layout = layouts_.layout_of(name)) {
    for (std::size_t gpu = 0; gpu < layout->gpus.size(); ++gpu) {
      if (layout->gpus[gpu] != mig::kNoState) part(static_cast<std::int32_t>(gpu));
    }
  }
  if (const auto members = index_.members.find(name); members != index_.members.end()) {
    for (const auto& [id, position] : members->second) {
      if (hypothetical.attempts.contains(id)) continue;
      const Member& member = tables_.assignments.find(id)->members[position];
      for (const DeviceRef& device : member.devices) {
        add(device.index, device.milli, member.pod.empty() ? id.to_string() : member.pod);
        if (device.milli == 0) part(device.index);
      }
    }
  }
  const auto free_share = [&](std::int32_t gpu) {  // of a shared GPU: the first unused share
    std::int32_t index = gpu * shares;
    while (shares > 1 && index % shares + 1 < shares && static_cast<std::size_t>(index) < use.size() &&
           use[static_cast<std::size_t>(index)].used_milli > 0) {
      ++index;
    }
    return index;
  };
  const Observation* seen = tables_.observations.find(name);
  std::vector<const Pod*> nowhere;
  for (const Pod* pod : pods_.non_member_pods(name)) {
    const auto& shape = pod->facts.shape;
    const auto given = seen == nullptr ? std::vector<DeviceRef>() : [&] {
      const auto it = seen->pods.find(pod->facts.key());
      return it == seen->pods.end() ? std::vector<DeviceRef>() : it->second;
    }();
    if (shape.gpu.mig_count > 0) {
      for (const DeviceRef& device : given) part(device.index);
    }
    if (shape.gpu.whole == 0 && shape.gpu.milli == 0) continue;
    const auto milli = static_cast<std::int32_t>(shape.gpu.whole > 0 ? 1000 : shape.gpu.milli);
    if (!given.empty() && !counts_instances(node.facts)) {
      for (const DeviceRef& device : given) add(free_share(device.index), milli, pod->facts.key());
    } else if (const auto planned = pod->planned_gpus(); !planned.empty()) {
      for (const auto gpu : planned) add(free_share(gpu), milli, pod->facts.key());
    } else {
      nowhere.push_back(pod);
    }
  }
  for (const Pod* pod : nowhere) {
    auto whole = pod->facts.shape.gpu.whole;
    const auto milli = static_cast<std::int32_t>(whole > 0 ? 1000 : pod->facts.shape.gpu.milli);
    whole = std::max<std::int64_t>(whole, 1);
    for (std::size_t i = use.size(); i-- > 0 && whole > 0;) {
      if (use[i].used_milli + milli > 1000) continue;
      add(static_cast<std::int32_t>(i), milli, pod->facts.key());
      --whole;
    }
  }
  const NodeCordonCauses* mark = tables_.cordon_causes.find(name);
  const auto verdict = mark == nullptr ? std::nullopt : mark->verdict();
  for (const auto& [gpu, why] : verdict ? verdict->gpus : std::map<std::int32_t, GpuVerdict>()) {
    for (std::int32_t share = 0; share < shares; ++share) {
      const auto index =
          static_cast<std::size_t>(gpu) * static_cast<std::size_t>(shares) + static_cast<std::size_t>(share);
      if (index < use.size()) use[index].healthy = false;
    }
  }
  return use;
}

std::vector<DeviceUse> Capacities::devices_of(const NodeName& node) const {
  return tables_.nodes.contains(node) ? use_of(node, {}) : std::vector<DeviceUse>();
}

NodeCapacity Capacities::capacity_of(const NodeName& name, const HypotheticalState& hypothetical) const {
  const Node& node = *tables_.nodes.find(name);
  NodeCapacity capacity;
  capacity.facts = &node.facts;
  capacity.cpu_milli = node.facts.cpu_milli;
  capacity.memory_bytes = node.facts.memory_bytes;
  capacity.extended = node.facts.extended;
  if (node.facts.pods) capacity.pods = *node.facts.pods;
  capacity.island = island_of(node.facts.labels);
  capacity.slices = in_slices(node.facts);
  capacity.number = index_.book->index_of(name);
  if (!own_causes(name).empty() || node.facts.unschedulable) {
    capacity.why_not = cordon_text(name);
  } else if (!node.facts.ready) {
    capacity.why_not = "not ready";
  } else if (manager_at_work(node.facts)) {
    capacity.why_not = "changing the MIG layout";
  } else if (!hypothetical.spares && is_spare(node.facts)) {
    capacity.why_not = "reserved as a spare";
  } else if (node.kept && !hypothetical.launched.contains(name)) {
    capacity.why_not = "kept for the pods that they were launched for";
  } else {
    capacity.usable = true;
  }
  for (std::size_t i = 0; i < std::min(node.facts.numa.zones.size(), kMostZones); ++i) {
    capacity.zones.push_back({node.facts.numa.zones[i].cpu_milli, node.facts.numa.zones[i].memory_bytes});
  }
  const auto subtract = [&](const PodShape& shape, const std::vector<DeviceRef>& devices) {
    capacity.gpu_pods = capacity.gpu_pods || !shape.gpu.none();
    take_from_zones(capacity, shape, devices);
    capacity.cpu_milli -= shape.cpu_milli;
    capacity.memory_bytes -= shape.memory_bytes;
    --capacity.pods;
    for (const auto& [resource, amount] : counted(shape)) capacity.extended[resource] -= amount;
  };
  const auto here = index_.members.find(name);
  if (here != index_.members.end()) {
    for (const auto& [id, position] : here->second) {
      if (hypothetical.attempts.contains(id)) continue;
      const Assignment& row = *tables_.assignments.find(id);
      const Member& member = row.members[position];
      if (const auto label = row.labels.find(std::string(kWorkloadType)); label != row.labels.end())
        capacity.types |= type_of(options_, label->second);
      capacity.alone = capacity.alone || row.pod_sets[static_cast<std::size_t>(member.set)].topology.exclusive;
      subtract(row.pod_sets[static_cast<std::size_t>(member.set)].shape, member.devices);
    }
  }
  for (const Pod* pod : pods_.non_member_pods(name)) {
    std::vector<DeviceRef> devices;
    for (const auto index : pod->planned_gpus()) devices.push_back({name, index, {}, 1000, {}});
    capacity.types |= type_of(options_, pod->facts.workload_type);
    subtract(pod->facts.shape, devices);
  }

  layouts_.fill_instances(name, capacity, hypothetical.attempts);
  std::int64_t allowed = node.facts.gpus;  // devices that may be in use at once
  const auto use = use_of(name, hypothetical);
  for (const DeviceUse& device : use) {
    const bool to_be_had = device.healthy && !device.parted;
    capacity.free_milli.push_back(to_be_had ? std::max(0, 1000 - device.used_milli) : 0);
    if (device.used_milli > 0 && !device.parted) --allowed;
  }
  const NodeCordonCauses* mark = tables_.cordon_causes.find(name);
  const auto verdict = mark == nullptr ? std::nullopt : mark->verdict();
  for (const auto& [gpu, why] : verdict ? verdict->gpus : std::map<std::int32_t, GpuVerdict>())
    capacity.faulty.push_back(fault_text(why.reason, why.cordon));
  // If more devices are installed than allocatable, the highest idle ones are not available.
  auto idle = capacity.idle_gpus();
  for (std::size_t i = capacity.free_milli.size(); i-- > 0 && idle > std::max<std::int64_t>(allowed, 0);) {
    if (capacity.free_milli[i] != 1000) continue;
    capacity.free_milli[i] = 0;
    --idle;
  }
  // Held capacity, on repartitioned GPUs as well.
  const auto keep = [&](const WorkloadUid& uid, const std::vector<HeldCapacity>& places) {
    const Workload* workload = tables_.workloads.find(uid);
    for (const HeldCapacity& place : places) {
      if (workload == nullptr || place.set >= std::ssize(workload->spec.pod_sets)) continue;
      const PodSet& set = workload->spec.pod_sets[static_cast<std::size_t>(place.set)];
      subtract(set.shape, place.devices);
      capacity.alone = capacity.alone || set.topology.exclusive;
      for (const DeviceRef& device : place.devices) {
        const auto index = static_cast<std::size_t>(device.index);
        if (index >= capacity.free_milli.size()) continue;
        auto& free = capacity.free_milli[index];
        free = std::max(0, free - device.milli);
      }
    }
  };
  for (const auto& [row, reservations] : index_.reservations.on(name)) {
    for (const Reservation& held : reservations) {
      const bool by_defrag = row.first == HoldSource::kDefragmentation;
      if (by_defrag ? hypothetical.defrag : hypothetical.holds.contains(held.holder)) continue;
      if (by_defrag && state_.is_migrating(held.holder)) continue;  // its proposal holds the capacity
      // Victims that have not left yet may use a part of the held capacity: that part counts once.
      std::optional<NodeCapacity> with_all;
      if (!held.used_by.empty()) with_all = capacity;
      for (const AttemptId& id : held.used_by) {
        const Assignment* there = hypothetical.attempts.contains(id) ? nullptr : tables_.assignments.find(id);
        if (there == nullptr || !there->holds()) continue;
        for (const Member& member : there->members) {
          if (member.live() && member.node == name)
            add_back(capacity, there->pod_sets[static_cast<std::size_t>(member.set)].shape, member.devices);
        }
      }
      keep(held.holder, held.places);
      if (with_all) at_most(capacity, *with_all);
      if (!capacity.usable || !held.drains) continue;
      capacity.usable = false;
      capacity.why_not = by_defrag ? "being drained by defragmentation" : "being drained for a MIG repartition";
    }
  }
  return capacity;
}

}  // namespace qm::placement
