// Evaluation of a node: whether it is usable, cordoned or lost, and its free capacity.
#include "engine/mig/node_layouts.hpp"
#include "qm/base/assert.hpp"
#include "qm/placement/engine.hpp"
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

/// If GPUs are allocated as MIG instances, the GPU of the next instance is unknown. A faulty GPU cannot be
/// excluded alone.
bool cordons(const Node* node, const std::optional<HealthVerdict>& verdict) {
  if (!verdict || verdict->cordon) return verdict.has_value();
  const auto is_mig = [](const auto& resource) {
    return resource.first.starts_with(words::kMigPrefix) && resource.second > 0;
  };
  return node != nullptr && (counts_instances(node->facts) || std::ranges::any_of(node->facts.extended, is_mig));
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

}  // namespace

std::string Engine::own_causes(const NodeName& name) const {
  const NodeCordonCauses* mark = tables_.cordon_causes.find(name);
  std::string causes;
  const auto add = [&](std::string_view cause) { causes += fmt::format("{}{}", causes.empty() ? "" : ",", cause); };
  if (mark != nullptr && mark->drain) add("drain");
  if (mark != nullptr && cordons(tables_.nodes.find(name), mark->verdict())) add("health");
  if (is_repartitioning(name)) add("layout");
  return causes;
}

void Engine::evaluate_node(const NodeName& name) {
  const Node* row = tables_.nodes.find(name);
  if (row == nullptr) {
    refresh_capacity(name);
    return;
  }
  Node next = *row;
  if (next.facts.ready) {
    next.not_ready_since = {};
  } else {
    if (next.not_ready_since == Instant{}) next.not_ready_since = scratch_.now;
    const auto lasts = static_cast<std::int64_t>(seconds(scratch_.now - next.not_ready_since));
    lose_members(name, fmt::format("node {} has not been ready for {} s, longer than its pods tolerate", name, lasts),
                 -1, &next);
  }
  reconcile_layout(name);
  const bool uncordoned = scratch_.uncordoned.erase(name) > 0;
  if (uncordoned) override_verdicts(name);
  const std::string causes = own_causes(name);
  if (uncordoned && !causes.empty()) next.cordon_sent = false;  // causes of ours remain: cordon it again
  if (causes.empty() == next.cordon_sent) {
    next.cordon_sent = !causes.empty();
    send(CordonNode{name, causes});
  }
  if (next != *row) tables_.nodes.insert(name, next);
  const NodeCordonCauses* mark = tables_.cordon_causes.find(name);
  if (const auto verdict = mark == nullptr ? std::nullopt : mark->verdict()) evict_faulty(name, *verdict);
  adopt(name);
  refresh_capacity(name);
}

void Engine::remove_node(const NodeName& name) {
  const Node* row = tables_.nodes.find(name);
  if (row == nullptr) return;
  Node last = *row;
  last.state = NodeState::kGone;
  last.since = scratch_.now;
  last.reason = "the node object is gone";
  last.pods = 0;
  lose_members(name, fmt::format("node {} is gone", name), 0);
  tables_.nodes.erase(name);
  if (tables_.cordon_causes.contains(name)) tables_.cordon_causes.erase(name);
  if (tables_.observations.contains(name)) tables_.observations.erase(name);
  store_repartition(name, {});
  refresh_capacity(name);
  scratch_.node_changed.erase(name);
  scratch_.out.events.push_back(NodeChanged{name, std::move(last), true});
}

/// An operator ended the cordon. This overrides the verdicts from before this step.
void Engine::override_verdicts(const NodeName& name) {
  const NodeCordonCauses* mark = tables_.cordon_causes.find(name);
  if (mark == nullptr || !mark->health) return;
  const auto before = scratch_.health_before.find(name);
  const auto past = before == scratch_.health_before.end() ? mark->health : before->second;
  if (past) tables_.cordon_causes.edit(name).overridden = past;
}

/// When the member counts as lost. Kubernetes deletes a pod after the node has not been ready for as long as
/// the pod tolerates. The end of a pod that is being deleted cannot be confirmed there.
Instant Engine::lost_at(const Node& node, const Member& member) const {
  const Pod* pod = member.pod_uid.empty() ? nullptr : tables_.pods.find(member.pod_uid);
  if (pod == nullptr || pod->facts.node != member.node || pod->facts.deleting || pod->facts.terminal())
    return node.not_ready_since + options_.node_timeout;
  const auto stays = is_unreachable(node.facts) ? pod->facts.unreachable_s : pod->facts.not_ready_s;
  return stays < 0 ? Instant::max() : node.not_ready_since + std::chrono::seconds(stays);
}

Instant Engine::next_loss(const NodeName& name) const {
  Instant next = Instant::max();
  const auto on_node = index_.members.find(name);
  if (on_node == index_.members.end()) return next;
  const Node& node = *tables_.nodes.find(name);
  for (const auto& [id, position] : on_node->second)
    next = std::min(next, lost_at(node, tables_.assignments.find(id)->members[position]));
  return next;
}

/// `grace_s`: grace period of the pods if their gang continues to run. On a node that is gone no kubelet
/// confirms the end of a pod. `not_ready`: the node exists, and only members whose time is over are lost.
void Engine::lose_members(const NodeName& name, const std::string& message, std::int64_t grace_s,
                          const Node* not_ready) {
  const auto on_node = index_.members.find(name);
  if (on_node == index_.members.end()) return;
  std::map<AttemptId, std::vector<std::size_t>> lost;
  for (const auto& [id, position] : on_node->second) {
    const Member& member = tables_.assignments.find(id)->members[position];
    if (not_ready == nullptr || lost_at(*not_ready, member) <= scratch_.now) lost[id].push_back(position);
  }
  for (const auto& [id, positions] : lost) {
    Assignment next = *tables_.assignments.find(id);
    for (const auto position : positions) {
      next.members[position].released = scratch_.now;
      next.members[position].lost = true;
    }
    Assignment fewer = next;
    std::erase_if(fewer.members, [](const Member& m) { return m.lost && m.bound == Instant{}; });
    if (is_elastic(next.pod_sets) && has_minimum(id, fewer)) {
      // The gang continues to run. Its controller recreates the pods after their deletion; they then get
      // other nodes.
      for (const auto position : positions) delete_lost(next.members[position].pod_uid, grace_s);
      next = std::move(fewer);
    } else {
      request_eviction(id, next, {"NodeFailure", message, scratch_.now, name, true});
    }
    store(id, std::move(next));
    scratch_.attempts.insert(id);
  }
}

void Engine::delete_lost(const std::string& pod_uid, std::int64_t grace_s) {
  const Pod* pod = tables_.pods.find(pod_uid);
  if (pod == nullptr || pod->delete_sent || pod->facts.deleting || pod->facts.terminal()) return;
  tables_.pods.edit(pod_uid).delete_sent = true;
  send(DeletePod{pod->facts.ns, pod->facts.name, pod_uid, grace_s, {}});
}

void Engine::evict_faulty(const NodeName& name, const HealthVerdict& health) {
  const auto on_node = index_.members.find(name);
  if (on_node == index_.members.end()) return;
  const std::set<MemberRef> members = on_node->second;
  for (const auto& [id, position] : members) {
    Assignment next = *tables_.assignments.find(id);
    const auto& devices = next.members[position].devices;
    const auto shares = shares_of(tables_.nodes.find(name)->facts);
    std::string what;
    if (health.cordon && health.gpu < 0) what = fmt::format("node {} is faulty: {}", name, health.reason);
    for (const DeviceRef& device : devices) {
      const auto gpu = health.gpus.find(gpu_of(device, shares));
      if (what.empty() && gpu != health.gpus.end())
        what = fmt::format("GPU {} of node {} is faulty: {}", gpu->first, name, gpu->second.reason);
    }
    if (what.empty()) continue;
    request_eviction(id, next, {"GpuFault", what, scratch_.now + options_.health_grace, name, false});
    store(id, std::move(next));
  }
}

std::vector<const Pod*> Engine::non_member_pods(const NodeName& name) const {
  std::vector<const Pod*> out;
  const auto pods = index_.pods.find(name);
  if (pods == index_.pods.end()) return out;
  std::set<std::string> ours;
  if (const auto members = index_.members.find(name); members != index_.members.end()) {
    for (const auto& [id, position] : members->second) {
      ours.insert(tables_.assignments.find(id)->members[position].pod_uid);
    }
  }
  for (const std::string& uid : pods->second) {
    if (!ours.contains(uid)) out.push_back(tables_.pods.find(uid));
  }
  return out;
}

// Use of each device. Members use their planned or observed devices. Other pods use the devices from the
// kubelet, else those that placement bound them to. Otherwise they block the highest idle devices, since our
// plans start with the lowest.
std::vector<Engine::DeviceUse> Engine::use_of(const NodeName& name, const HypotheticalState& hypothetical) const {
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
  if (const auto layout = layout_of(name)) {
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
  for (const Pod* pod : non_member_pods(name)) {
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

std::vector<Engine::DeviceUse> Engine::devices_of(const NodeName& node) const {
  return tables_.nodes.contains(node) ? use_of(node, {}) : std::vector<DeviceUse>();
}

namespace {
/// "XID 79 ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS (recovery action: restart or replace the node)": without
/// the GPU index, so that equal faults are counted together.
std::string fault_text(const std::string& reason, bool cordon) {
  return fmt::format("{} (recovery action: {})", reason.substr(0, reason.find(" on GPU ")),
                     cordon ? "restart or replace the node" : "reset the GPU");
}
}  // namespace

/// Why no pods are placed on a cordoned node; equal for equal causes.
std::string Engine::cordon_text(const NodeName& name) const {
  const Node& node = *tables_.nodes.find(name);
  const NodeCordonCauses* mark = tables_.cordon_causes.find(name);
  if (const auto verdict = mark == nullptr ? std::nullopt : mark->verdict(); cordons(&node, verdict)) {
    const auto gpu = verdict->gpus.find(verdict->gpu);
    return "cordoned after " + fault_text(verdict->reason, gpu == verdict->gpus.end() || gpu->second.cordon);
  }
  if (mark != nullptr && mark->drain) return fmt::format("cordoned for a drain: {}", mark->drain->reason);
  if (is_repartitioning(name)) return "cordoned for a MIG layout order";
  return node.facts.cordoned_by.empty() ? "cordoned manually" : "cordoned, uncordon pending";
}

NodeCapacity Engine::capacity_of(const NodeName& name, const HypotheticalState& hypothetical) const {
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
        capacity.types |= type_of(label->second);
      capacity.alone = capacity.alone || row.pod_sets[static_cast<std::size_t>(member.set)].topology.exclusive;
      subtract(row.pod_sets[static_cast<std::size_t>(member.set)].shape, member.devices);
    }
  }
  for (const Pod* pod : non_member_pods(name)) {
    std::vector<DeviceRef> devices;
    for (const auto index : pod->planned_gpus()) devices.push_back({name, index, {}, 1000, {}});
    capacity.types |= type_of(pod->facts.workload_type);
    subtract(pod->facts.shape, devices);
  }

  fill_instances(name, capacity, hypothetical.attempts);
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
  static const std::set<WorkloadUid> kNoWorkloads;
  static const std::set<MemberRef> kNone;
  const auto keep = [&](const WorkloadUid& uid, const std::vector<HeldCapacity>& places) {
    const Workload* workload = tables_.workloads.find(uid);
    for (const HeldCapacity& place : places) {
      if (workload == nullptr || place.node != name || place.set >= std::ssize(workload->spec.pod_sets)) continue;
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
  const auto held = index_.held.find(name);
  for (const WorkloadUid& uid : held == index_.held.end() ? kNoWorkloads : held->second) {
    const Proposal& row = *tables_.proposals.find(uid);
    for (const auto& victim : row.victims) {
      if (!hypothetical.holds.contains(victim.id.uid)) keep(victim.id.uid, victim.to);
    }
    if (hypothetical.holds.contains(uid)) continue;
    // Victims that have not left yet may use a part of the held capacity: that part counts once.
    const NodeCapacity with_all = capacity;
    for (const auto& [id, position] : here == index_.members.end() ? kNone : here->second) {
      const auto is_it = [&id](const Proposal::Victim& victim) { return victim.id == id; };
      if (hypothetical.attempts.contains(id) || std::ranges::none_of(row.victims, is_it)) continue;
      const Assignment& there = *tables_.assignments.find(id);
      const Member& member = there.members[position];
      add_back(capacity, there.pod_sets[static_cast<std::size_t>(member.set)].shape, member.devices);
    }
    keep(uid, row.places);
    at_most(capacity, with_all);
    if (!capacity.usable || !row.repartitions.contains(name)) continue;
    capacity.usable = false;
    capacity.why_not = "being drained for a MIG repartition";
  }
  if (!hypothetical.defrag && index_.defrag_nodes.contains(name)) {
    const DefragStep& step = defrag_run().steps.front();
    for (const auto& move : step.moves) {
      if (!moves(move.id.uid)) keep(move.id.uid, move.places);
    }
    if (capacity.usable && std::ranges::find(step.nodes, name) != step.nodes.end()) {
      capacity.usable = false;
      capacity.why_not = "being drained for a MIG repartition";
    }
  }
  const Repartition* repartition = tables_.repartitions.find(name);
  if (repartition != nullptr && repartition->reserved_for && repartition->reserved_for->waits &&
      !hypothetical.holds.contains(repartition->reserved_for->uid))
    keep(repartition->reserved_for->uid, repartition->reserved_for->places);
  return capacity;
}

void Engine::refresh_capacity(const NodeName& name) {
  book_node(name);
  index_.not_ready.erase(name);
  if (const Node* node = tables_.nodes.find(name); node != nullptr && !node->facts.ready)
    index_.not_ready.emplace(name, next_loss(name));
  if (!tables_.nodes.contains(name)) {
    index_.free_capacity.erase(name);
    index_.lists.touch(name);
    index_.preference.drop(name);
    return;
  }
  NodeCapacity next = capacity_of(name);
  const NodeCapacity& capacity = index_.free_capacity[name];
  const bool more =
      next.usable &&
      (!capacity.usable || next.cpu_milli > capacity.cpu_milli || next.memory_bytes > capacity.memory_bytes ||
       next.gpu_milli() > capacity.gpu_milli() || next.idle_gpus() > capacity.idle_gpus() ||
       next.pods > capacity.pods || next.extended != capacity.extended || next.zones != capacity.zones ||
       next.types != capacity.types || (capacity.gpu_pods && !next.gpu_pods) || (capacity.alone && !next.alone));
  scratch_.capacity_added = scratch_.capacity_added || more;
  scratch_.freed = scratch_.freed || more;
  set_capacity(name, std::move(next));
}

void Engine::set_capacity(const NodeName& name, NodeCapacity capacity) {
  index_.preference.keep(name, *capacity.facts);
  index_.free_capacity[name] = std::move(capacity);
  index_.lists.touch(name);
}

void Engine::publish_status(const NodeName& name) {
  const Node* row = tables_.nodes.find(name);
  if (row == nullptr) return;
  Node next = *row;
  const std::string causes = own_causes(name);
  NodeState state = NodeState::kReady;
  std::string reason;
  if (!next.facts.ready) {
    state = NodeState::kNotReady;
    reason = "not ready";
  } else if (!causes.empty()) {
    state = NodeState::kCordoned;
    const NodeCordonCauses* mark = tables_.cordon_causes.find(name);
    const auto add = [&](std::string_view cause, const std::string& why) {
      reason += fmt::format("{}{}: {}", reason.empty() ? "" : "; ", cause, why);
    };
    if (const auto verdict = mark == nullptr ? std::nullopt : mark->verdict(); cordons(&next, verdict))
      add("health", verdict->reason);
    if (mark != nullptr && mark->drain) add("drain", mark->drain->reason);
    if (is_repartitioning(name)) {
      const relayout::Row& order = *tables_.repartitions.find(name)->order;
      add("layout", order.reason.empty() ? order.order.layout : order.order.layout + ": " + order.reason);
    }
  } else if (next.facts.unschedulable) {
    state = NodeState::kCordoned;
    reason = next.facts.cordoned_by.empty() ? "cordoned manually" : "being uncordoned";
  } else {
    reason = layout_finding(name);
    const NodeCordonCauses* mark = tables_.cordon_causes.find(name);
    const auto add = [&](const std::string& what) { reason += (reason.empty() ? "" : "; ") + what; };
    const auto verdict = mark == nullptr ? std::nullopt : mark->verdict();
    for (const auto& [gpu, why] : verdict ? verdict->gpus : std::map<std::int32_t, GpuVerdict>())
      add(fmt::format("GPU {} is out of service: {}", gpu, why.reason));
    if (mark != nullptr && mark->overridden)
      add(fmt::format("health verdict overridden by a manual uncordon: {}", mark->overridden->reason));
  }
  if (state != next.state || next.since == Instant{}) next.since = scratch_.now;
  next.state = state;
  next.reason = std::move(reason);
  std::int32_t pods = 0;
  if (const auto members = index_.members.find(name); members != index_.members.end()) {
    pods = static_cast<std::int32_t>(members->second.size());
  }
  for (const Pod* pod : non_member_pods(name)) pods += pod->facts.daemon ? 0 : 1;
  next.pods = pods;
  if (pods > 0) {
    next.empty_since = {};
  } else if (next.empty_since == Instant{}) {
    next.empty_since = scratch_.now;
  }
  if (next == *row) return;
  tables_.nodes.insert(name, std::move(next));
  scratch_.node_changed.insert(name);
}

}  // namespace qm::placement
