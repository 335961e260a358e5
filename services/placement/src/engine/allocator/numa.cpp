// Predicts the kubelet's Topology Manager.
#include "qm/placement/numa.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace qm::placement {
namespace {

bool is_strict(TopologyPolicy policy) {
  return policy == TopologyPolicy::kRestricted || policy == TopologyPolicy::kSingleNumaNode;
}

/// GPUs, CPUs and memory, of a pod or of zones. A resource without a request is not a hint provider.
using Amounts = std::array<std::int64_t, 3>;
constexpr std::array<std::string_view, 3> kNames{"numa-gpu", "numa-cpu", "numa-memory"};

/// The kubelet allocates exclusive CPUs to pods that request whole ones; the others share the rest.
std::int64_t exclusive_cpu(const PodShape& shape) { return shape.cpu_milli % 1000 == 0 ? shape.cpu_milli : 0; }

ZoneMask zones_of(const NodeCapacity& capacity, const std::vector<DeviceRef>& devices) {
  ZoneMask mask = 0;
  for (std::size_t i = 0; i < capacity.zones.size(); ++i) {
    const auto& gpus = capacity.facts->numa.zones[i].gpus;
    for (const DeviceRef& device : devices) {
      if (std::ranges::find(gpus, device.index) != gpus.end()) mask |= ZoneMask{1} << i;
    }
  }
  return mask;
}

Amounts request_for(const NodeCapacity& capacity, const PodShape& shape) {
  const auto& zones = capacity.facts->numa.zones;
  const bool cpu = std::ranges::any_of(zones, [](const NumaZone& zone) { return zone.cpu_milli > 0; });
  const bool memory = std::ranges::all_of(zones, [](const NumaZone& zone) { return zone.memory_bytes > 0; });
  return {shape.gpu.whole, cpu ? exclusive_cpu(shape) : 0, memory ? shape.memory_bytes : 0};
}

std::int64_t idle_in(const NodeCapacity& capacity, const NumaZone& zone) {
  return std::ranges::count_if(zone.gpus, [&](std::int32_t gpu) {
    return gpu >= 0 && gpu < std::ssize(capacity.free_milli) &&
           capacity.free_milli[static_cast<std::size_t>(gpu)] == 1000;
  });
}

struct Zones {
  std::vector<Amounts> free, all;

  explicit Zones(const NodeCapacity& capacity) {
    const auto& zones = capacity.facts->numa.zones;
    for (std::size_t i = 0; i < capacity.zones.size(); ++i) {
      free.push_back({idle_in(capacity, zones[i]), capacity.zones[i].cpu_milli, capacity.zones[i].memory_bytes});
      all.push_back({std::ssize(zones[i].gpus), zones[i].cpu_milli, zones[i].memory_bytes});
    }
  }
  [[nodiscard]] ZoneMask masks() const { return ZoneMask{1} << free.size(); }
};

bool has(const std::vector<Amounts>& zones, ZoneMask mask, std::size_t what, std::int64_t asked) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < zones.size(); ++i) sum += (mask >> i & 1U) != 0 ? zones[i][what] : 0;
  return sum >= asked;
}

/// The fewest zones with enough of the resource on the empty node; the number of all zones if it never has
/// enough.
int fewest(const Zones& zones, std::size_t what, std::int64_t asked) {
  int least = static_cast<int>(zones.all.size());
  for (ZoneMask mask = 1; mask < zones.masks(); ++mask) {
    if (has(zones.all, mask, what, asked)) least = std::min(least, std::popcount(mask));
  }
  return least;
}

/// The first set of `count` zones with enough of all requested resources.
std::optional<ZoneMask> first_of(const Zones& zones, const Amounts& asked, int count) {
  for (ZoneMask mask = 1; mask < zones.masks(); ++mask) {
    if (std::popcount(mask) != count) continue;
    bool all = true;
    for (std::size_t what = 0; what < asked.size(); ++what) all = all && has(zones.free, mask, what, asked[what]);
    if (all) return mask;
  }
  return std::nullopt;
}

/// Number of zones that all hint providers prefer; none if they differ.
std::optional<int> preferred(const Zones& zones, const Amounts& asked) {
  std::optional<int> count;
  for (std::size_t what = 0; what < asked.size(); ++what) {
    if (asked[what] == 0) continue;
    const int own = fewest(zones, what, asked[what]);
    if (count && *count != own) return std::nullopt;
    count = own;
  }
  return count;
}

}  // namespace

std::optional<ZoneMask> align(const NodeCapacity& capacity, const PodShape& shape) {
  const auto policy = capacity.facts->numa.policy;
  if (capacity.zones.empty() || policy == TopologyPolicy::kNone) return std::nullopt;
  const Amounts asked = request_for(capacity, shape);
  if (asked == Amounts{}) return std::nullopt;
  const Zones zones(capacity);
  if (policy == TopologyPolicy::kSingleNumaNode) return first_of(zones, asked, 1);
  if (const auto count = preferred(zones, asked)) {
    if (const auto found = first_of(zones, asked, *count)) return found;
  }
  if (policy == TopologyPolicy::kRestricted) return std::nullopt;
  // Policy best-effort rejects no pod: as few zones as have the GPUs, with the other resources if possible.
  for (int count = 1; count <= static_cast<int>(capacity.zones.size()); ++count) {
    if (const auto found = first_of(zones, asked, count)) return found;
    if (const auto found = asked[0] > 0 ? first_of(zones, {asked[0], 0, 0}, count) : std::nullopt) return found;
  }
  return std::nullopt;
}

std::int64_t pods_that_align(const NodeCapacity& capacity, const PodShape& shape, std::int64_t most) {
  if (capacity.zones.empty() || !is_strict(capacity.facts->numa.policy)) return most;
  const Amounts asked = request_for(capacity, shape);
  if (asked == Amounts{}) return most;
  const Zones zones(capacity);
  const auto count = capacity.facts->numa.policy == TopologyPolicy::kSingleNumaNode ? 1 : preferred(zones, asked);
  if (!count) return 0;
  std::int64_t pods = 0;
  if (*count == 1) {  // every zone by itself
    for (const Amounts& zone : zones.free) {
      std::int64_t here = most;
      for (std::size_t what = 0; what < asked.size(); ++what) {
        if (asked[what] > 0) here = std::min(here, std::max<std::int64_t>(zone[what], 0) / asked[what]);
      }
      pods += here;
    }
    return std::min(pods, most);
  }
  for (NodeCapacity left = capacity; pods < most; ++pods) {
    const auto mask = align(left, shape);
    if (!mask) break;
    std::vector<DeviceRef> devices;
    const auto free = only_in(left, *mask);
    for (const auto i : choose_devices(free, nest_of(left), shape.gpu.whole)) {
      devices.push_back({{}, static_cast<std::int32_t>(i), {}, 1000, {}});
      left.free_milli[i] = 0;
    }
    take_from_zones(left, shape, devices);
  }
  return pods;
}

std::vector<std::int32_t> only_in(const NodeCapacity& capacity, ZoneMask zones) {
  std::vector<std::int32_t> out(capacity.free_milli.size(), 0);
  for (std::size_t zone = 0; zone < capacity.zones.size(); ++zone) {
    if ((zones >> zone & 1U) == 0) continue;
    for (const auto gpu : capacity.facts->numa.zones[zone].gpus) {
      if (gpu >= 0 && gpu < std::ssize(out))
        out[static_cast<std::size_t>(gpu)] = capacity.free_milli[static_cast<std::size_t>(gpu)];
    }
  }
  return out;
}

void take_from_zones(NodeCapacity& capacity, const PodShape& shape, const std::vector<DeviceRef>& devices) {
  if (capacity.zones.empty()) return;
  const ZoneMask zones = devices.empty() ? align(capacity, shape).value_or(0) : zones_of(capacity, devices);
  std::int64_t cpu = exclusive_cpu(shape), memory = shape.memory_bytes;
  for (const bool inside : {true, false}) {
    for (std::size_t i = 0; i < capacity.zones.size(); ++i) {
      if (((zones >> i & 1U) != 0) != inside) continue;
      const auto cpus = std::min(cpu, capacity.zones[i].cpu_milli),
                 bytes = std::min(memory, capacity.zones[i].memory_bytes);
      capacity.zones[i].cpu_milli -= cpus;
      capacity.zones[i].memory_bytes -= bytes;
      cpu -= cpus;
      memory -= bytes;
    }
  }
}

void give_to_zones(NodeCapacity& capacity, const PodShape& shape, const std::vector<DeviceRef>& devices) {
  const ZoneMask zones = devices.empty() ? ~ZoneMask{0} : zones_of(capacity, devices);
  std::int64_t cpu = exclusive_cpu(shape), memory = shape.memory_bytes;
  for (std::size_t i = 0; i < capacity.zones.size(); ++i) {
    if ((zones >> i & 1U) == 0) continue;
    const auto& whole = capacity.facts->numa.zones[i];
    const auto cpus = std::clamp<std::int64_t>(whole.cpu_milli - capacity.zones[i].cpu_milli, 0, cpu);
    const auto bytes = std::clamp<std::int64_t>(whole.memory_bytes - capacity.zones[i].memory_bytes, 0, memory);
    capacity.zones[i].cpu_milli += cpus;
    capacity.zones[i].memory_bytes += bytes;
    cpu -= cpus;
    memory -= bytes;
  }
}

std::string refused_by_zones(const NodeCapacity& capacity, const PodShape& shape) {
  if (pods_that_align(capacity, shape, 1) > 0) return {};
  const Amounts asked = request_for(capacity, shape);
  const Zones zones(capacity);
  const bool single = capacity.facts->numa.policy == TopologyPolicy::kSingleNumaNode;
  const auto what_for = [&](std::size_t what) {
    return fmt::format("{}: {}", kNames[what],
                       single ? "no single NUMA node fits a pod" : "no preferred set of NUMA nodes fits a pod");
  };
  // The first resource that, with those before it, has no zones.
  Amounts some{};
  for (std::size_t what = 0; what < asked.size(); ++what) {
    some[what] = asked[what];
    if (asked[what] == 0) continue;
    const auto count = single ? std::optional<int>(1) : preferred(zones, some);
    if (!count || !first_of(zones, some, *count)) return what_for(what);
  }
  return what_for(0);
}

}  // namespace qm::placement
