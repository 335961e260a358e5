#include "qm/placement/plan/cluster_model.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <set>
#include <utility>

namespace qm::placement::plan {
namespace {

using gang::Group;

void collect(const Group& group, std::vector<gang::PodSet>& out) {
  out.insert(out.end(), group.sets.begin(), group.sets.end());
  for (const auto& child : group.children) collect(child, out);
}

}  // namespace

std::vector<gang::PodSet> sets_of(const gang::Request& request) {
  std::vector<gang::PodSet> out;
  collect(request.gang, out);
  return out;
}

std::int64_t topology_cost(const gang::Tree& tree, std::span<const PodPlacement> placements) {
  std::vector<std::uint32_t> here;
  for (const auto& placement : placements) here.push_back(placement.node);
  std::int64_t cost = 0, weight = 1;
  for (Level level = tree.depth(); level > gang::kFleet; --level, weight *= 8) {
    std::ranges::sort(here);
    here.erase(std::unique(here.begin(), here.end()), here.end());
    cost += weight * static_cast<std::int64_t>(here.size());
    for (auto& domain : here) domain = tree.parent({level, domain});
  }
  return cost;
}

NodeId ClusterModel::add_node(std::span<const std::string> path, std::string name, const pack::NodeState& empty) {
  Node node;
  node.empty = empty;
  node.free = empty.free;
  node.cpu_milli = empty.cpu_milli;
  node.memory_bytes = empty.memory_bytes;
  node.pods = empty.pods;
  nodes_.push_back(std::move(node));
  auto sorted = empty;
  std::sort(sorted.free.begin(), sorted.free.end(), std::greater<>());
  nodes_.back().empty.free = sorted.free;
  return fleet_.add(path, std::move(name), sorted);
}

pack::NodeState ClusterModel::state(NodeId id) const {
  const Node& node = nodes_[id];
  pack::NodeState out = node.empty;
  out.cpu_milli = node.cpu_milli;
  out.memory_bytes = node.memory_bytes;
  out.pods = node.pods;
  out.free = node.free;
  std::sort(out.free.begin(), out.free.begin() + out.gpus, std::greater<>());
  for (std::size_t bit = 0; bit < node.kinds.size() && bit < 16; ++bit) {
    if (node.kinds[bit] > 0) out.kinds = static_cast<std::uint16_t>(out.kinds | 1U << bit);
  }
  return out;
}

Devices ClusterModel::devices_for(NodeId id, const pack::PodClass& pod) const {
  const auto& free = nodes_[id].free;
  Devices out = 0;
  if (pod.shares()) {
    std::size_t best = pack::kMaxDevices;
    for (std::size_t d = 0; d < pack::kMaxDevices; ++d) {
      if (free[d] >= pod.gpu_milli && (best == pack::kMaxDevices || free[d] < free[best])) best = d;
    }
    QM_ASSERT(best < pack::kMaxDevices, "node {} has no device with free capacity for a share", id);
    return static_cast<Devices>(1U << best);
  }
  auto missing = pod.gpus;
  for (std::size_t d = 0; d < pack::kMaxDevices && missing > 0; ++d) {
    if (free[d] != pack::kDevice) continue;
    out = static_cast<Devices>(out | 1U << d);
    --missing;
  }
  QM_ASSERT(missing == 0, "node {} lacks {} devices", id, missing);
  return out;
}

std::int32_t ClusterModel::pods_that_fit(NodeId id, const gang::Kind& kind) const {
  const Node& node = nodes_[id];
  if (node.closed || node.excluded || node.owners > 0) return 0;
  if ((kind.gates >> fleet_.gate(id) & 1U) == 0) return 0;
  if (kind.exclusive && state(id) != node.empty) return 0;
  const auto& pod = kind.pod;
  if (pod.gpus > 0 && (pod.models >> node.empty.model & 1U) == 0) return 0;
  // Counts like gang::pods_that_fit(), but the devices need not be sorted.
  std::int64_t count = std::min(node.pods, kind.most);
  if (pod.cpu_milli > 0) count = std::min(count, node.cpu_milli / pod.cpu_milli);
  if (pod.memory_bytes > 0) count = std::min(count, node.memory_bytes / pod.memory_bytes);
  if (pod.gpus > 0) {
    std::int64_t capacity = 0;
    for (std::size_t d = 0; d < node.empty.gpus; ++d) {
      capacity += pod.shares() ? node.free[d] / pod.gpu_milli : (node.free[d] == pack::kDevice ? 1 : 0);
    }
    count = std::min(count, capacity / pod.gpus);
  }
  return static_cast<std::int32_t>(count - count % kind.run);
}

void ClusterModel::change(const pack::PodClass& pod, bool exclusive, const PodPlacement& placement, std::int32_t sign) {
  Node& node = nodes_[placement.node];
  node.cpu_milli -= sign * pod.cpu_milli;
  node.memory_bytes -= sign * pod.memory_bytes;
  node.pods -= sign;
  if (exclusive) node.owners = static_cast<std::int16_t>(node.owners + sign);
  for (auto rest = placement.devices; rest != 0; rest = static_cast<Devices>(rest & (rest - 1))) {
    auto& free = node.free[static_cast<std::size_t>(std::countr_zero(rest))];
    free = static_cast<std::uint16_t>(free - sign * pod.gpu_milli);
  }
  if (const auto kind = pack::kind_of(pod); kind != 0) {
    auto& count = node.kinds[static_cast<std::size_t>(std::countr_zero(kind))];
    count = static_cast<std::uint8_t>(count + sign);
  }
  mark_stale(placement.node);
}

void ClusterModel::mark_stale(NodeId id) {
  if (nodes_[id].stale) return;
  nodes_[id].stale = true;
  stale_.push_back(id);
}

void ClusterModel::change(GangId gang, const PodPlacement& placement, std::int32_t sign) {
  change(pod(gang, placement.set), gangs_[gang]->request.exclusive, placement, sign);
}

void ClusterModel::update_fleet(NodeId id) {
  Node& node = nodes_[id];
  node.stale = false;
  fleet_.set(id, state(id));
  if (node.closed) fleet_.remove(id);
  if (node.excluded || node.owners > 0) {
    fleet_.close(id);
  } else {
    fleet_.open(id);
  }
}

void ClusterModel::sync() {
  for (const auto node : std::exchange(stale_, {})) update_fleet(node);
}

void ClusterModel::allocate(GangId id) {
  for (const auto& placement : gangs_[id]->placements) {
    change(id, placement, 1);
    auto& tenants = nodes_[placement.node].tenants;
    tenants.insert(std::ranges::upper_bound(tenants, id), id);
    const Node& node = nodes_[placement.node];
    QM_ASSERT(node.cpu_milli >= 0 && node.memory_bytes >= 0 && node.pods >= 0, "node {} has no free capacity for {}",
              placement.node, gangs_[id]->name);
    for (const auto free : node.free)
      QM_ASSERT(free <= pack::kDevice, "a device of node {} is allocated twice, to {}", placement.node,
                gangs_[id]->name);
  }
  sync();
}

void ClusterModel::release(GangId id) {
  for (const auto& placement : gangs_[id]->placements) {
    change(id, placement, -1);
    auto& tenants = nodes_[placement.node].tenants;
    tenants.erase(std::ranges::lower_bound(tenants, id));
  }
  sync();
}

GangId ClusterModel::add(Gang gang) {
  const auto id = static_cast<GangId>(gangs_.size());
  auto& classes = sets_.emplace_back();
  for (const auto& set : sets_of(gang.request)) classes.push_back(set.pod);
  std::int64_t milli = 0;
  for (const auto& placement : gang.placements) milli += classes[static_cast<std::size_t>(placement.set)].total_milli();
  gpu_milli_.push_back(milli);
  evicted_.push_back(0);
  gangs_.emplace_back(std::move(gang));
  allocate(id);
  return id;
}

void ClusterModel::remove(GangId gang) {
  release(gang);
  gangs_[gang].reset();
}

void ClusterModel::move(std::map<GangId, std::vector<PodPlacement>> gangs) {
  for (const auto& [gang, placements] : gangs) release(gang);
  for (auto& [gang, placements] : gangs) {
    gangs_[gang]->placements = std::move(placements);
    allocate(gang);
  }
}

void ClusterModel::close(NodeId node) {
  nodes_[node].closed = true;
  update_fleet(node);
}

bool ClusterModel::exclude(NodeId node, bool excluded) {
  if (nodes_[node].excluded == excluded) return false;
  nodes_[node].excluded = excluded;
  update_fleet(node);
  return true;
}

std::vector<GangId> ClusterModel::on(NodeId node) const {
  auto out = nodes_[node].tenants;
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void ClusterModel::apply_eviction(GangId gang) {
  evicted_[gang] = 1;
  for (const auto& placement : gangs_[gang]->placements) change(gang, placement, -1);
}

void ClusterModel::revert_eviction(GangId gang) {
  evicted_[gang] = 0;
  for (const auto& placement : gangs_[gang]->placements) change(gang, placement, 1);
}

void ClusterModel::reserve(const gang::Request& request, std::span<const PodPlacement> placements) {
  change(request, placements, 1);
}

void ClusterModel::unreserve(const gang::Request& request, std::span<const PodPlacement> placements) {
  change(request, placements, -1);
}

void ClusterModel::change(const gang::Request& request, std::span<const PodPlacement> placements, std::int32_t sign) {
  const auto sets = sets_of(request);
  for (const auto& placement : placements)
    change(sets[static_cast<std::size_t>(placement.set)].pod, request.exclusive, placement, sign);
}

Status ClusterModel::has_capacity(const gang::Request& request, std::span<const PodPlacement> placements) {
  const auto sets = sets_of(request);
  std::set<NodeId> own;
  Status status;
  std::size_t taken = 0;
  for (; taken < placements.size() && status; ++taken) {
    const auto& placement = placements[taken];
    const auto& pod = sets[static_cast<std::size_t>(placement.set)].pod;
    const Node& node = nodes_[placement.node];
    const auto& name = fleet_.tree().name(Domain{fleet_.tree().depth(), placement.node});
    bool full = node.cpu_milli < pod.cpu_milli || node.memory_bytes < pod.memory_bytes || node.pods < 1 ||
                std::popcount(placement.devices) != pod.gpus;
    for (std::size_t d = 0; d < pack::kMaxDevices; ++d)
      full = full || ((placement.devices >> d & 1U) != 0 && node.free[d] < pod.gpu_milli);
    if (own.insert(placement.node).second) {
      if (node.closed || node.excluded) status = fail(Code::kAborted, "node {} is closed to placements", name);
      if ((sets[static_cast<std::size_t>(placement.set)].gates >> fleet_.gate(placement.node) & 1U) == 0)
        status = fail(Code::kAborted, "node {} no longer admits the pods of set {}", name, placement.set);
      if (node.owners > 0) status = fail(Code::kAborted, "node {} belongs to an exclusive gang", name);
      if (request.exclusive && state(placement.node) != node.empty)
        status = fail(Code::kAborted, "node {} is not empty, the gang is exclusive", name);
    }
    if (full && status)
      status = fail(Code::kAborted, "node {} has no free capacity for rank {} of set {}", name, placement.rank,
                    placement.set);
    change(pod, false, placement, 1);
  }
  for (const auto& placement : placements.first(taken))
    change(sets[static_cast<std::size_t>(placement.set)].pod, false, placement, -1);
  return status;
}

std::vector<PodPlacement> ClusterModel::placements_for(const gang::Request& request, const gang::Answer& answer) const {
  const auto sets = sets_of(request);
  std::vector<PodPlacement> out;
  std::map<NodeId, std::array<std::uint16_t, pack::kMaxDevices>> free;
  // Whole devices before shares, in the order in which they were chosen.
  for (const bool shares : {false, true}) {
    for (const auto& [set, rank, node, milli] : answer.members) {
      const auto& pod = sets[static_cast<std::size_t>(set)].pod;
      if (pod.shares() != shares) continue;
      auto& here = free.try_emplace(node, nodes_[node].free).first->second;
      PodPlacement placement{set, rank, node, 0};
      const auto needed = shares ? milli : pack::kDevice;
      auto missing = pod.gpus;
      for (std::size_t d = 0; d < pack::kMaxDevices && missing > 0; ++d) {
        if (here[d] != needed) continue;
        here[d] = static_cast<std::uint16_t>(here[d] - pod.gpu_milli);
        placement.devices = static_cast<Devices>(placement.devices | 1U << d);
        --missing;
      }
      QM_ASSERT(missing == 0, "node {} lacks {} devices of an answer of the fleet", node, missing);
      out.push_back(placement);
    }
  }
  std::ranges::sort(out);
  return out;
}

void ClusterModel::audit() {
  QM_ASSERT(stale_.empty(), "{} nodes are not updated in the fleet", stale_.size());
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    QM_ASSERT(fleet_.state(id) == state(id), "node {} has another state in the fleet", id);
    Node fresh;
    fresh.empty = nodes_[id].empty;
    std::int64_t cpu = fresh.empty.cpu_milli, used = 0, held = 0;
    std::multiset<GangId> tenants;
    for (GangId gang = 0; gang < gangs(); ++gang) {
      if (!runs(gang)) continue;
      QM_ASSERT(evicted_[gang] == 0, "the hypothetical eviction of {} was not reverted", gangs_[gang]->name);
      for (const auto& placement : gangs_[gang]->placements) {
        if (placement.node != id) continue;
        cpu -= pod(gang, placement.set).cpu_milli;
        used += pod(gang, placement.set).gpu_milli * std::popcount(placement.devices);
        tenants.insert(gang);
      }
    }
    for (std::size_t d = 0; d < fresh.empty.gpus; ++d) held += fresh.empty.free[d] - nodes_[id].free[d];
    QM_ASSERT(cpu == nodes_[id].cpu_milli && held == used, "the counters of node {} differ from its gangs", id);
    QM_ASSERT(std::ranges::equal(tenants, nodes_[id].tenants), "node {} lists other gangs than those with pods there",
              id);
  }
  fleet_.audit();
}

}  // namespace qm::placement::plan
