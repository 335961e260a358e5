// What the facts of a node mean: usable or not, cordoned or not, lost or not, and what is free on it.
#include "qm/base/assert.hpp"
#include "qm/placement/engine.hpp"
#include "qm/placement/numa.hpp"

#include <algorithm>

namespace qm::placement {

std::string Engine::own_causes(const NodeName& name) const {
  const NodeMark* mark = tables_.marks.find(name);
  std::string causes;
  if (mark == nullptr) return causes;
  if (mark->drain) causes = "drain";
  if (mark->health && mark->health->cordon) causes += causes.empty() ? "health" : ",health";
  return causes;
}

void Engine::evaluate_node(const NodeName& name) {
  const Node* row = tables_.nodes.find(name);
  if (row == nullptr) {
    refresh_room(name);
    return;
  }
  Node next = *row;
  if (next.facts.ready) {
    next.not_ready_since = {};
    next.lost = false;
  } else if (next.not_ready_since == Instant{}) {
    next.not_ready_since = scratch_.now;
  } else if (!next.lost && next.not_ready_since + options_.node_timeout <= scratch_.now) {
    next.lost = true;
    lose_members(name, fmt::format("node {} has not been ready for {} s", name,
                                   static_cast<std::int64_t>(seconds(options_.node_timeout))));
  }
  const std::string causes = own_causes(name);
  if (causes.empty() == next.cordon_sent) {
    next.cordon_sent = !causes.empty();
    send(CordonNode{name, causes});
  }
  if (next != *row) tables_.nodes.insert(name, next);
  if (!next.facts.ready && !next.lost) {
    index_.not_ready.insert(name);
  } else {
    index_.not_ready.erase(name);
  }
  const NodeMark* mark = tables_.marks.find(name);
  if (mark != nullptr && mark->health && mark->health->cordon) blame_faulty(name, *mark->health);
  adopt(name);
  refresh_room(name);
}

void Engine::remove_node(const NodeName& name) {
  const Node* row = tables_.nodes.find(name);
  if (row == nullptr) return;
  Node last = *row;
  last.state = NodeState::kGone;
  last.since = scratch_.now;
  last.reason = "the node object is gone";
  last.pods = 0;
  lose_members(name, fmt::format("node {} is gone", name));
  tables_.nodes.erase(name);
  if (tables_.marks.contains(name)) tables_.marks.erase(name);
  if (tables_.observations.contains(name)) tables_.observations.erase(name);
  index_.not_ready.erase(name);
  refresh_room(name);
  scratch_.node_changed.erase(name);
  scratch_.out.events.push_back(NodeChanged{name, std::move(last), true});
}

void Engine::lose_members(const NodeName& name, const std::string& message) {
  const auto on_node = index_.members.find(name);
  if (on_node == index_.members.end()) return;
  const std::set<MemberRef> members = on_node->second;
  for (const auto& [id, position] : members) {
    Assignment next = *tables_.assignments.find(id);
    next.members[position].released = scratch_.now;
    request_eviction(id, next, {"NodeFailure", message, scratch_.now, name, true});
    store(id, std::move(next));
    scratch_.attempts.insert(id);
  }
}

void Engine::blame_faulty(const NodeName& name, const HealthMark& health) {
  const auto on_node = index_.members.find(name);
  if (on_node == index_.members.end()) return;
  const std::set<MemberRef> members = on_node->second;
  for (const auto& [id, position] : members) {
    Assignment next = *tables_.assignments.find(id);
    const auto& devices = next.members[position].devices;
    const bool uses = health.gpu < 0 ||
                      std::ranges::any_of(devices, [&](const DeviceRef& device) { return device.index == health.gpu; });
    if (!uses) continue;
    const auto what =
        health.gpu < 0 ? fmt::format("node {}", name) : fmt::format("GPU {} of node {}", health.gpu, name);
    request_eviction(id, next,
                     {"GpuFault", fmt::format("{} is faulty: {}", what, health.reason),
                      scratch_.now + options_.health_grace, name, false});
    store(id, std::move(next));
  }
}

std::vector<const Pod*> Engine::strangers(const NodeName& name) const {
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

// Who uses which device. Members stand where they are planned or observed. A stranger stands where the kubelet put it,
// else where its annotation says, else it blocks the highest idle devices: our own plans start from the lowest.
std::vector<Engine::DeviceUse> Engine::use_of(const NodeName& name) const {
  const Node& node = *tables_.nodes.find(name);
  std::vector<DeviceUse> use(static_cast<std::size_t>(std::max(node.facts.gpus, node.facts.gpus_installed)));
  const auto add = [&](std::int32_t index, std::int32_t milli, const std::string& pod) {
    if (index < 0 || index > 1023) return;
    if (static_cast<std::size_t>(index) >= use.size()) use.resize(static_cast<std::size_t>(index) + 1);
    use[static_cast<std::size_t>(index)].used_milli += milli;
    use[static_cast<std::size_t>(index)].pods.push_back(pod);
  };
  if (const auto members = index_.members.find(name); members != index_.members.end()) {
    for (const auto& [id, position] : members->second) {
      const Member& member = tables_.assignments.find(id)->members[position];
      for (const DeviceRef& device : member.devices) {
        add(device.index, device.milli, member.pod.empty() ? id.to_string() : member.pod);
      }
    }
  }
  const Observation* seen = tables_.observations.find(name);
  std::vector<const Pod*> nowhere;
  for (const Pod* pod : strangers(name)) {
    const auto& gpu = pod->facts.shape.gpu;
    if (gpu.whole == 0 && gpu.milli == 0) continue;
    const auto milli = static_cast<std::int32_t>(gpu.whole > 0 ? 1000 : gpu.milli);
    const auto given = seen == nullptr ? std::vector<DeviceRef>() : [&] {
      const auto it = seen->pods.find(pod->facts.key());
      return it == seen->pods.end() ? std::vector<DeviceRef>() : it->second;
    }();
    if (!given.empty()) {
      for (const DeviceRef& device : given) add(device.index, milli, pod->facts.key());
    } else if (!pod->facts.devices.empty()) {
      for (const auto index : pod->facts.devices) add(index, milli, pod->facts.key());
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
  const NodeMark* mark = tables_.marks.find(name);
  if (mark != nullptr && mark->health && mark->health->gpu >= 0 &&
      static_cast<std::size_t>(mark->health->gpu) < use.size()) {
    use[static_cast<std::size_t>(mark->health->gpu)].healthy = false;
  }
  return use;
}

std::vector<Engine::DeviceUse> Engine::devices_of(const NodeName& node) const {
  return tables_.nodes.contains(node) ? use_of(node) : std::vector<DeviceUse>();
}

Room Engine::room_of(const NodeName& name) const {
  const Node& node = *tables_.nodes.find(name);
  Room room;
  room.facts = &node.facts;
  room.cpu_milli = node.facts.cpu_milli;
  room.memory_bytes = node.facts.memory_bytes;
  room.extended = node.facts.extended;
  room.island = island_of(node.facts.labels);
  if (!own_causes(name).empty() || node.facts.unschedulable) {
    room.why_not = "cordoned";
  } else if (!node.facts.ready) {
    room.why_not = "not ready";
  } else {
    room.usable = true;
  }
  for (std::size_t i = 0; i < std::min(node.facts.numa.zones.size(), kMostZones); ++i) {
    room.zones.push_back({node.facts.numa.zones[i].cpu_milli, node.facts.numa.zones[i].memory_bytes});
  }
  const auto subtract = [&](const PodShape& shape, const std::vector<DeviceRef>& devices) {
    take_from_zones(room, shape, devices);
    room.cpu_milli -= shape.cpu_milli;
    room.memory_bytes -= shape.memory_bytes;
    for (const auto& [resource, amount] : counted(shape)) room.extended[resource] -= amount;
  };
  if (const auto members = index_.members.find(name); members != index_.members.end()) {
    for (const auto& [id, position] : members->second) {
      const Assignment& row = *tables_.assignments.find(id);
      const Member& member = row.members[position];
      subtract(row.pod_sets[static_cast<std::size_t>(member.set)].shape, member.devices);
    }
  }
  for (const Pod* pod : strangers(name)) {
    std::vector<DeviceRef> devices;
    for (const auto index : pod->facts.devices) devices.push_back({name, index, {}, 1000, {}});
    subtract(pod->facts.shape, devices);
  }

  std::int64_t allowed = node.facts.gpus;  // devices that may be in use at once
  const auto use = use_of(name);
  for (const DeviceUse& device : use) {
    room.free_milli.push_back(device.healthy ? std::max(0, 1000 - device.used_milli) : 0);
    if (device.used_milli > 0) --allowed;
  }
  // Where more devices are installed than allocatable, the highest idle ones are not to be had.
  auto idle = room.idle_gpus();
  for (std::size_t i = room.free_milli.size(); i-- > 0 && idle > std::max<std::int64_t>(allowed, 0);) {
    if (room.free_milli[i] != 1000) continue;
    room.free_milli[i] = 0;
    --idle;
  }
  return room;
}

void Engine::refresh_room(const NodeName& name) {
  book_node(name);
  if (!tables_.nodes.contains(name)) {
    index_.rooms.erase(name);
    return;
  }
  Room next = room_of(name);
  Room& room = index_.rooms[name];
  const bool more =
      next.usable && (!room.usable || next.cpu_milli > room.cpu_milli || next.memory_bytes > room.memory_bytes ||
                      next.gpu_milli() > room.gpu_milli() || next.idle_gpus() > room.idle_gpus() ||
                      next.extended != room.extended || next.zones != room.zones);
  scratch_.grew = scratch_.grew || more;
  room = std::move(next);
}

// The kubelet's word is the truth: members that it shows elsewhere move to those devices, and members that are only
// planned make way. An observation that gives one device twice is not believed.
void Engine::adopt(const NodeName& name) {
  const Observation* seen = tables_.observations.find(name);
  const auto on_node = index_.members.find(name);
  if (seen == nullptr || on_node == index_.members.end()) return;
  struct Move {
    MemberRef ref;
    std::vector<DeviceRef> devices;
    bool observed = false;
  };
  std::vector<Move> moves;
  bool differs = false;
  for (const auto& ref : on_node->second) {
    const Member& member = tables_.assignments.find(ref.first)->members[ref.second];
    Move move{ref, member.devices, false};
    if (const auto given = seen->pods.find(member.pod); !member.pod.empty() && given != seen->pods.end()) {
      auto devices = given->second;
      std::ranges::sort(devices, {}, &DeviceRef::index);
      if (devices.size() == member.devices.size() && !devices.empty()) {
        move.observed = true;
        for (std::size_t i = 0; i < devices.size(); ++i) {
          devices[i].node = name;
          devices[i].milli = member.devices[i].milli;
        }
        differs = differs || devices != member.devices;
        move.devices = std::move(devices);
      }
    }
    moves.push_back(std::move(move));
  }
  if (!differs) return;

  std::map<std::int32_t, std::int32_t> used;
  const auto fits = [&](const Move& move) {
    return std::ranges::all_of(move.devices, [&](const DeviceRef& d) { return used[d.index] + d.milli <= 1000; });
  };
  const auto add = [&](const Move& move) {
    for (const DeviceRef& device : move.devices) used[device.index] += device.milli;
  };
  const auto devices = static_cast<std::int32_t>(use_of(name).size());
  bool good = true;
  for (const Move& move : moves) {
    if (!move.observed) continue;
    good = good && fits(move) &&
           std::ranges::all_of(move.devices, [&](const DeviceRef& d) { return d.index >= 0 && d.index < devices; });
    add(move);
  }
  std::vector<Move*> displaced;
  for (Move& move : moves) {
    if (move.observed) continue;
    if (good && fits(move)) {
      add(move);
    } else {
      displaced.push_back(&move);
    }
  }
  for (Move* move : displaced) {
    for (DeviceRef& device : move->devices) {
      std::int32_t index = 0;
      while (index < devices && used[index] + device.milli > 1000) ++index;
      good = good && index < devices;
      device.index = index;
      device.uuid = DeviceUuid();
      used[index] += device.milli;
    }
  }
  if (!good) {
    scratch_.out.notes.drift_refused += scratch_.observed.erase(name);  // counted once per observation
    return;
  }
  for (Move& move : moves) {
    Assignment next = *tables_.assignments.find(move.ref.first);
    Member& member = next.members[move.ref.second];
    if (member.devices == move.devices) continue;
    const bool moved = !std::ranges::equal(member.devices, move.devices, {}, &DeviceRef::index, &DeviceRef::index);
    if (moved) ++scratch_.out.notes.drift;
    member.devices = std::move(move.devices);
    store(move.ref.first, std::move(next));
  }
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
    reason = next.lost ? "lost" : "not ready";
  } else if (!causes.empty()) {
    state = NodeState::kCordoned;
    const NodeMark& mark = *tables_.marks.find(name);
    if (mark.health && mark.health->cordon) reason = fmt::format("health: {}", mark.health->reason);
    if (mark.drain) reason += fmt::format("{}drain: {}", reason.empty() ? "" : "; ", mark.drain->reason);
  } else if (next.facts.unschedulable) {
    state = NodeState::kCordoned;
    reason = next.facts.cordoned_by.empty() ? "cordoned by somebody else" : "cordon is being lifted";
  }
  if (state != next.state || next.since == Instant{}) next.since = scratch_.now;
  next.state = state;
  next.reason = std::move(reason);
  std::int32_t pods = 0;
  if (const auto members = index_.members.find(name); members != index_.members.end()) {
    pods = static_cast<std::int32_t>(members->second.size());
  }
  for (const Pod* pod : strangers(name)) pods += pod->facts.daemon ? 0 : 1;
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
