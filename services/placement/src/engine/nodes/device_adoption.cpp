// The kubelet's allocation is authoritative. Members that it reports on other devices move to those devices,
// and members with only a plan get other devices. An observation that lists one device twice is rejected.
//
// Devices are of three kinds:
//   whole      planned by its index; one member has it (or several members have parts of it that add up to it)
//   share      of a GPU that the kubelet advertises several times: device `gpu * shares + n`; n has no meaning
//   instance   of MIG: planned on a GPU if the layout is known, else only as a count. An observed instance
//              has no milli, since its profile determines its part of the GPU; the GPU is not available as a
//              whole
//
// If instances count as GPUs, with the strategy single, device numbers have no meaning: they do not identify
// the GPU of a pod.
#include "engine/nodes/device_adoption.hpp"

#include "engine/mig/node_layouts.hpp"

#include <algorithm>

namespace qm::placement {

namespace {

struct Move {
  std::pair<AttemptId, std::size_t> ref;
  std::vector<DeviceRef> devices;
  bool observed = false;
};

bool is_instance(const DeviceRef& device) { return device.milli == 0; }

/// Devices of the node during the assignment of the moves.
class Layout {
 public:
  Layout(std::int32_t devices, std::int32_t shares) : devices_(devices), shares_(shares) {}

  [[nodiscard]] bool fits(const Move& move) const {
    return std::ranges::all_of(move.devices, [&](const DeviceRef& d) { return fits(d); });
  }
  void add(const Move& move) {
    for (const DeviceRef& d : move.devices) {
      if (is_instance(d)) {
        if (!d.uuid.empty()) instances_.emplace(d.index, d.uuid);  // without uuid: any instance of the GPU
        parted_.insert(d.index);
      } else {
        used_[d.index] += d.milli;
      }
    }
  }
  /// The first unused share of this GPU; an index outside of the node if all are used.
  [[nodiscard]] std::int32_t free_share(std::int32_t gpu) const {
    if (gpu < 0 || gpu >= devices_) return -1;
    for (auto index = gpu * shares_; index < (gpu + 1) * shares_; ++index) {
      if (!used_.contains(index)) return index;
    }
    return devices_;
  }
  /// The lowest device with so much free milli; -1 = none.
  [[nodiscard]] std::int32_t lowest_for(std::int32_t milli) const {
    for (std::int32_t index = 0; index < devices_; ++index) {
      const auto used = used_.find(index);
      if (!parted_.contains(index) && (used == used_.end() ? 0 : used->second) + milli <= 1000) return index;
    }
    return -1;
  }
  void use(std::int32_t index, std::int32_t milli) { used_[index] += milli; }

 private:
  [[nodiscard]] bool fits(const DeviceRef& d) const {
    if (d.index < 0 || d.index >= devices_) return false;
    const auto used = used_.find(d.index);
    const auto taken = used == used_.end() ? 0 : used->second;
    if (!is_instance(d)) return !parted_.contains(d.index) && taken + d.milli <= 1000;
    return taken == 0 && !instances_.contains({d.index, d.uuid});
  }

  std::int32_t devices_, shares_;
  std::map<std::int32_t, std::int32_t> used_;  // milli of whole devices and shares
  std::set<std::pair<std::int32_t, DeviceUuid>> instances_;
  std::set<std::int32_t> parted_;  // GPUs with allocated instances
};

std::vector<std::int32_t> gpus_of(const std::vector<DeviceRef>& devices, std::int32_t shares) {
  std::vector<std::int32_t> out;
  for (const DeviceRef& device : devices) out.push_back(gpu_of(device, shares));
  std::ranges::sort(out);
  return out;
}

/// Whether the member was planned on other devices. A device without a plan is not drift.
bool has_drifted(const std::vector<DeviceRef>& before, const std::vector<DeviceRef>& after, std::int32_t shares) {
  return !before.empty() && !std::ranges::equal(before, after, [&](const DeviceRef& a, const DeviceRef& b) {
    return gpu_of(a, shares) == gpu_of(b, shares) && (!is_instance(a) || a.uuid.empty() || a.uuid == b.uuid);
  });
}

}  // namespace

void DeviceAdoption::adopt(const NodeName& name) {
  const Observation* seen = tables_.observations.find(name);
  const auto on_node = index_.members.find(name);
  if (seen == nullptr || on_node == index_.members.end() || counts_instances(tables_.nodes.find(name)->facts)) return;
  const auto shares = shares_of(tables_.nodes.find(name)->facts);
  Layout layout(static_cast<std::int32_t>(capacities_.use_of(name, {}).size()), shares);
  bool good = true;
  const auto place_sets = [&](Move& move) {
    good = good && layout.fits(move);
    layout.add(move);
  };

  // First the members on their planned devices, so that the others get the remaining shares.
  std::vector<Move> moves;
  std::vector<std::size_t> migration_target;
  bool differs = false;
  for (const auto& ref : on_node->second) {
    const Assignment& row = *tables_.assignments.find(ref.first);
    const Member& member = row.members[ref.second];
    const PodShape& shape = row.pod_sets[static_cast<std::size_t>(member.set)].shape;
    Move move{ref, member.devices, false};
    const auto given = seen->pods.find(member.pod);
    const auto wanted = member.devices.empty() ? shape.gpu.mig_count : std::ssize(member.devices);
    if (!member.pod.empty() && given != seen->pods.end() && std::ssize(given->second) == wanted && wanted > 0) {
      auto devices = given->second;
      std::ranges::sort(devices, [](const DeviceRef& a, const DeviceRef& b) {
        return std::tie(a.index, a.uuid) < std::tie(b.index, b.uuid);
      });
      move.observed = true;
      const bool instances = shape.gpu.mig_count > 0;
      const bool same = !instances && gpus_of(member.devices, shares) == gpus_of(devices, 1);
      for (std::size_t i = 0; i < devices.size(); ++i) {
        devices[i].node = name;
        devices[i].milli = instances ? 0 : member.devices[i].milli;
        if (shares > 1 && same) devices[i].index = member.devices[i].index;
      }
      if (shares > 1 && !same && !instances) migration_target.push_back(moves.size());
      move.devices = std::move(devices);
      differs = differs || move.devices != member.devices;
      if (migration_target.empty() || migration_target.back() != moves.size()) place_sets(move);
    }
    moves.push_back(std::move(move));
  }
  if (!differs) return;
  for (const auto position : migration_target) {
    Move& move = moves[position];
    for (DeviceRef& device : move.devices) {
      device.index = layout.free_share(device.index);
      layout.use(device.index, device.milli);
    }
    good = good && std::ranges::all_of(move.devices, [&](const DeviceRef& d) {
             return d.index >= 0 && d.index < static_cast<std::int32_t>(capacities_.use_of(name, {}).size());
           });
  }

  std::vector<Move*> displaced;
  for (Move& move : moves) {
    if (move.observed) continue;
    if (good && layout.fits(move)) {
      layout.add(move);
    } else {
      displaced.push_back(&move);
    }
  }
  for (Move* move : displaced) {
    std::erase_if(move->devices, is_instance);  // its instance is unknown now
    for (DeviceRef& device : move->devices) {
      device.index = layout.lowest_for(device.milli);
      device.uuid = DeviceUuid();
      good = good && device.index >= 0;
      layout.use(device.index, device.milli);
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
    if (has_drifted(member.devices, move.devices, shares)) ++scratch_.out.notes.drift;
    member.devices = std::move(move.devices);
    rows_.store(move.ref.first, std::move(next));
  }
}

}  // namespace qm::placement
