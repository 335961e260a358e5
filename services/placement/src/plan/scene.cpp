#include "qm/placement/plan/scene.hpp"

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

std::int64_t topology_cost(const gang::Tree& tree, std::span<const Seat> seats) {
  std::vector<std::uint32_t> here;
  for (const auto& seat : seats) here.push_back(seat.node);
  std::int64_t cost = 0, weight = 1;
  for (Level level = tree.depth(); level > gang::kFleet; --level, weight *= 8) {
    std::ranges::sort(here);
    here.erase(std::unique(here.begin(), here.end()), here.end());
    cost += weight * static_cast<std::int64_t>(here.size());
    for (auto& domain : here) domain = tree.parent({level, domain});
  }
  return cost;
}

NodeId Scene::add_node(std::span<const std::string> path, std::string name, const pack::NodeState& empty) {
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

pack::NodeState Scene::state(NodeId id) const {
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

Devices Scene::devices_for(NodeId id, const pack::PodClass& pod) const {
  const auto& free = nodes_[id].free;
  Devices out = 0;
  if (pod.shares()) {
    std::size_t best = pack::kMaxDevices;
    for (std::size_t d = 0; d < pack::kMaxDevices; ++d) {
      if (free[d] >= pod.gpu_milli && (best == pack::kMaxDevices || free[d] < free[best])) best = d;
    }
    QM_ASSERT(best < pack::kMaxDevices, "node {} has no device for a share", id);
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

std::int32_t Scene::takes(NodeId id, const gang::Kind& kind, bool even_spare) const {
  const Node& node = nodes_[id];
  if (node.lost || (node.spare && !even_spare) || node.barred || node.owners > 0) return 0;
  if ((kind.gates >> fleet_.gate(id) & 1U) == 0) return 0;
  if (kind.exclusive && state(id) != node.empty) return 0;
  const auto& pod = kind.pod;
  if (pod.gpus > 0 && (pod.models >> node.empty.model & 1U) == 0) return 0;
  // Counts like gang::pods_that_fit(), but the devices need not be sorted.
  std::int64_t count = std::min(node.pods, kind.most);
  if (pod.cpu_milli > 0) count = std::min(count, node.cpu_milli / pod.cpu_milli);
  if (pod.memory_bytes > 0) count = std::min(count, node.memory_bytes / pod.memory_bytes);
  if (pod.gpus > 0) {
    std::int64_t room = 0;
    for (std::size_t d = 0; d < node.empty.gpus; ++d) {
      room += pod.shares() ? node.free[d] / pod.gpu_milli : (node.free[d] == pack::kDevice ? 1 : 0);
    }
    count = std::min(count, room / pod.gpus);
  }
  return static_cast<std::int32_t>(count - count % kind.run);
}

void Scene::change(const pack::PodClass& pod, bool exclusive, const Seat& seat, std::int32_t sign) {
  Node& node = nodes_[seat.node];
  node.cpu_milli -= sign * pod.cpu_milli;
  node.memory_bytes -= sign * pod.memory_bytes;
  node.pods -= sign;
  if (exclusive) node.owners = static_cast<std::int16_t>(node.owners + sign);
  for (auto rest = seat.devices; rest != 0; rest = static_cast<Devices>(rest & (rest - 1))) {
    auto& free = node.free[static_cast<std::size_t>(std::countr_zero(rest))];
    free = static_cast<std::uint16_t>(free - sign * pod.gpu_milli);
  }
  if (const auto kind = pack::kind_of(pod); kind != 0) {
    auto& count = node.kinds[static_cast<std::size_t>(std::countr_zero(kind))];
    count = static_cast<std::uint8_t>(count + sign);
  }
  touch(seat.node);
}

void Scene::touch(NodeId id) {
  if (nodes_[id].stale) return;
  nodes_[id].stale = true;
  stale_.push_back(id);
}

void Scene::change(GangId gang, const Seat& seat, std::int32_t sign) {
  change(pod(gang, seat.set), gangs_[gang]->request.exclusive, seat, sign);
}

// ---- partitioned devices ----

const Cut* Scene::cut_of(NodeId node, std::int32_t device) const {
  const auto& cuts = nodes_[node].cuts;
  const auto found = std::ranges::find(cuts, device, &Cut::device);
  return found == cuts.end() ? nullptr : &*found;
}

Cut& Scene::cut_at(NodeId node, std::int32_t device) {
  auto& cuts = nodes_[node].cuts;
  const auto found = std::ranges::find(cuts, device, &Cut::device);
  QM_ASSERT(found != cuts.end(), "device {} of node {} is not cut", device, node);
  return *found;
}

/// Sets whether the device counts as idle: it does if this was requested and none of its instances is used.
void Scene::offer(NodeId node, Cut& cut) {
  const bool offered = offering_ && cut.used == mig::StateTable::empty();
  if (offered == cut.offered) return;
  cut.offered = offered;
  auto& free = nodes_[node].free[static_cast<std::size_t>(cut.device)];
  free = static_cast<std::uint16_t>(offered ? free + pack::kDevice : free - pack::kDevice);
  touch(node);
}

void Scene::change(const Slice& slice, bool used) {
  auto& cut = cut_at(slice.node, slice.device);
  const auto& table = mig::StateTable::of(cut.family);
  QM_ASSERT(table.has(cut.layout, slice.spot) && table.has(cut.used, slice.spot) != used,
            "instance {} on device {} of node {} is not there to be {}", slice.spot, slice.device, slice.node,
            used ? "taken" : "freed");
  cut.used = used ? table.place(cut.used, slice.spot) : table.free(cut.used, slice.spot);
  offer(slice.node, cut);
}

void Scene::cut(NodeId id, std::int32_t device, mig::Family family, mig::StateId layout) {
  Node& node = nodes_[id];
  if (cut_of(id, device) == nullptr) {
    auto& free = node.free[static_cast<std::size_t>(device)];
    QM_ASSERT(free == pack::kDevice, "device {} of node {} is in use", device, id);
    free = 0;
    node.cuts.push_back({device, family, layout});
    if (std::ranges::find(cut_, id) == cut_.end()) cut_.push_back(id);
  }
  auto& cut = cut_at(id, device);
  const auto& table = mig::StateTable::of(family);
  QM_ASSERT((table.mask(cut.used) & ~table.mask(layout)) == 0, "an instance on device {} of node {} is in use", device,
            id);
  cut.layout = layout;
  touch(id);
  sync();
}

void Scene::make_whole(NodeId id, std::int32_t device) {
  Node& node = nodes_[id];
  const auto& cut = cut_at(id, device);
  QM_ASSERT(cut.used == mig::StateTable::empty() && !cut.offered, "device {} of node {} is in use", device, id);
  std::erase_if(node.cuts, [&](const Cut& one) { return one.device == device; });
  node.free[static_cast<std::size_t>(device)] = pack::kDevice;
  touch(id);
  sync();
}

std::optional<GangId> Scene::holder(const Slice& slice) const {
  for (const auto gang : on(slice.node)) {
    if (!lifted(gang) && std::ranges::find(gangs_[gang]->slices, slice) != gangs_[gang]->slices.end()) return gang;
  }
  return std::nullopt;
}

void Scene::offer_cut(bool offered) {
  offering_ = offered;
  for (const auto node : cut_) {
    for (auto& cut : nodes_[node].cuts) offer(node, cut);
  }
}

void Scene::tell(NodeId id) {
  Node& node = nodes_[id];
  node.stale = false;
  fleet_.set(id, state(id));
  if (node.lost) fleet_.remove(id);
  if (node.spare || node.barred || node.owners > 0) {
    fleet_.close(id);
  } else {
    fleet_.open(id);
  }
}

void Scene::sync() {
  for (const auto node : std::exchange(stale_, {})) tell(node);
}

void Scene::enlist(GangId id) {
  for (const auto& seat : gangs_[id]->seats) {
    change(id, seat, 1);
    auto& tenants = nodes_[seat.node].tenants;
    tenants.insert(std::ranges::upper_bound(tenants, id), id);
    const Node& node = nodes_[seat.node];
    QM_ASSERT(node.cpu_milli >= 0 && node.memory_bytes >= 0 && node.pods >= 0, "node {} has no room for {}", seat.node,
              gangs_[id]->name);
    for (const auto free : node.free)
      QM_ASSERT(free <= pack::kDevice, "a device of node {} is booked twice, by {}", seat.node, gangs_[id]->name);
  }
  for (const auto& slice : gangs_[id]->slices) change(slice, true);
  sync();
}

void Scene::strike(GangId id) {
  for (const auto& seat : gangs_[id]->seats) {
    change(id, seat, -1);
    auto& tenants = nodes_[seat.node].tenants;
    tenants.erase(std::ranges::lower_bound(tenants, id));
  }
  for (const auto& slice : gangs_[id]->slices) change(slice, false);
  sync();
}

GangId Scene::add(Gang gang) {
  const auto id = static_cast<GangId>(gangs_.size());
  auto& classes = sets_.emplace_back();
  for (const auto& set : sets_of(gang.request)) classes.push_back(set.pod);
  std::int64_t milli = 0;
  for (const auto& seat : gang.seats) milli += classes[static_cast<std::size_t>(seat.set)].total_milli();
  gpu_milli_.push_back(milli);
  lifted_.push_back(0);
  gangs_.emplace_back(std::move(gang));
  enlist(id);
  return id;
}

void Scene::remove(GangId gang) {
  strike(gang);
  gangs_[gang].reset();
}

void Scene::move(std::map<GangId, std::vector<Seat>> gangs) {
  for (const auto& [gang, seats] : gangs) strike(gang);
  for (auto& [gang, seats] : gangs) {
    gangs_[gang]->seats = std::move(seats);
    enlist(gang);
  }
}

void Scene::lose(NodeId node) {
  nodes_[node].lost = true;
  tell(node);
}

void Scene::keep_spare(NodeId node, bool spare) {
  nodes_[node].spare = spare;
  tell(node);
}

bool Scene::bar(NodeId node, bool barred) {
  if (nodes_[node].barred == barred) return false;
  nodes_[node].barred = barred;
  tell(node);
  return true;
}

std::vector<GangId> Scene::on(NodeId node) const {
  auto out = nodes_[node].tenants;
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void Scene::lift(GangId gang) {
  lifted_[gang] = 1;
  for (const auto& seat : gangs_[gang]->seats) change(gang, seat, -1);
  for (const auto& slice : gangs_[gang]->slices) change(slice, false);
}

void Scene::put_back(GangId gang) {
  lifted_[gang] = 0;
  for (const auto& seat : gangs_[gang]->seats) change(gang, seat, 1);
  for (const auto& slice : gangs_[gang]->slices) change(slice, true);
}

void Scene::take(const gang::Request& request, std::span<const Seat> seats, std::int32_t sign) {
  const auto sets = sets_of(request);
  for (const auto& seat : seats) change(sets[static_cast<std::size_t>(seat.set)].pod, request.exclusive, seat, sign);
}

bool Scene::vacant(NodeId id) const {
  auto now = state(id);
  for (const auto& cut : nodes_[id].cuts) {
    if (cut.used != mig::StateTable::empty()) return false;
    if (!cut.offered) *std::ranges::find(now.free, std::uint16_t{0}) = pack::kDevice;
  }
  std::sort(now.free.begin(), now.free.begin() + now.gpus, std::greater<>());
  return now == nodes_[id].empty;
}

Status Scene::has_room(const gang::Request& request, std::span<const Seat> seats, bool even_spare) {
  const auto sets = sets_of(request);
  std::set<NodeId> own;
  Status status;
  std::size_t taken = 0;
  for (; taken < seats.size() && status; ++taken) {
    const auto& seat = seats[taken];
    const auto& pod = sets[static_cast<std::size_t>(seat.set)].pod;
    const Node& node = nodes_[seat.node];
    const auto& name = fleet_.tree().name(Domain{fleet_.tree().depth(), seat.node});
    bool full = node.cpu_milli < pod.cpu_milli || node.memory_bytes < pod.memory_bytes || node.pods < 1 ||
                std::popcount(seat.devices) != pod.gpus;
    for (std::size_t d = 0; d < pack::kMaxDevices; ++d)
      full = full || ((seat.devices >> d & 1U) != 0 && node.free[d] < pod.gpu_milli);
    if (own.insert(seat.node).second) {
      if (node.lost || (node.spare && !even_spare) || node.barred)
        status = fail(Code::kAborted, "node {} takes nobody now", name);
      if ((sets[static_cast<std::size_t>(seat.set)].gates >> fleet_.gate(seat.node) & 1U) == 0)
        status = fail(Code::kAborted, "node {} is not for such pods any more", name);
      if (node.owners > 0) status = fail(Code::kAborted, "node {} belongs to a gang that wants it for itself", name);
      if (request.exclusive && !vacant(seat.node)) status = fail(Code::kAborted, "node {} is not empty", name);
    }
    if (full && status)
      status = fail(Code::kAborted, "node {} has no room for rank {} of set {}", name, seat.rank, seat.set);
    change(pod, false, seat, 1);
  }
  for (const auto& seat : seats.first(taken)) change(sets[static_cast<std::size_t>(seat.set)].pod, false, seat, -1);
  return status;
}

std::vector<Seat> Scene::seats_for(const gang::Request& request, const gang::Answer& answer) const {
  const auto sets = sets_of(request);
  std::vector<Seat> out;
  std::map<NodeId, std::array<std::uint16_t, pack::kMaxDevices>> free;
  // Whole devices before shares, in the order in which they were chosen.
  for (const bool shares : {false, true}) {
    for (const auto& [set, rank, node, milli] : answer.members) {
      const auto& pod = sets[static_cast<std::size_t>(set)].pod;
      if (pod.shares() != shares) continue;
      auto& here = free.try_emplace(node, nodes_[node].free).first->second;
      Seat seat{set, rank, node, 0};
      const auto asked = shares ? milli : pack::kDevice;
      auto missing = pod.gpus;
      for (const bool cut : {false, true}) {  // partitioned devices last
        for (std::size_t d = 0; d < pack::kMaxDevices && missing > 0; ++d) {
          if (here[d] != asked || (cut_of(node, static_cast<std::int32_t>(d)) != nullptr) != cut) continue;
          here[d] = static_cast<std::uint16_t>(here[d] - pod.gpu_milli);
          seat.devices = static_cast<Devices>(seat.devices | 1U << d);
          --missing;
        }
      }
      QM_ASSERT(missing == 0, "node {} lacks {} devices that an answer counts on", node, missing);
      out.push_back(seat);
    }
  }
  std::ranges::sort(out);
  return out;
}

void Scene::audit() {
  QM_ASSERT(stale_.empty(), "{} nodes are not what the fleet knows", stale_.size());
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    QM_ASSERT(fleet_.state(id) == state(id), "the fleet knows another state of node {}", id);
    Node fresh;
    fresh.empty = nodes_[id].empty;
    std::int64_t cpu = fresh.empty.cpu_milli, used = 0, held = 0;
    std::multiset<GangId> tenants;
    for (GangId gang = 0; gang < gangs(); ++gang) {
      if (!runs(gang)) continue;
      QM_ASSERT(lifted_[gang] == 0, "{} was not put back", gangs_[gang]->name);
      for (const auto& seat : gangs_[gang]->seats) {
        if (seat.node != id) continue;
        cpu -= pod(gang, seat.set).cpu_milli;
        used += pod(gang, seat.set).gpu_milli * std::popcount(seat.devices);
        tenants.insert(gang);
      }
    }
    for (std::size_t d = 0; d < fresh.empty.gpus; ++d) held += fresh.empty.free[d] - nodes_[id].free[d];
    for (const auto& cut : nodes_[id].cuts) {
      QM_ASSERT(!cut.offered, "device {} of node {} is still offered", cut.device, id);
      held -= pack::kDevice;
    }
    QM_ASSERT(cpu == nodes_[id].cpu_milli && held == used, "node {} is booked otherwise than its gangs say", id);
    QM_ASSERT(std::ranges::equal(tenants, nodes_[id].tenants), "node {} knows other gangs", id);
  }
  fleet_.audit();
}

}  // namespace qm::placement::plan
