// Groups of devices: NVLink islands, sockets, PCIe switches, and shares of one GPU.
#include "qm/base/assert.hpp"
#include "qm/placement/policy.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace qm::placement {
namespace {

constexpr std::string_view kIslandLabel = "gpu.nvidia.com/nvlink-gpus-per-island";
constexpr std::string_view kSharesLabel = "nvidia.com/gpu.replicas";

/// The label as a number above zero; 0 if it is not one.
std::int32_t number_of(const Labels& labels, std::string_view key) {
  thread_local std::string text;  // called for every node
  text.assign(key);
  const auto label = labels.find(text);
  if (label == labels.end()) return 0;
  std::int32_t number = 0;
  const auto* end = label->second.data() + label->second.size();
  const auto [stop, error] = std::from_chars(label->second.data(), end, number);
  return error == std::errc() && stop == end && number > 0 ? number : 0;
}

// ---- device selection ----

using Devices = std::vector<std::size_t>;
constexpr int kIslands = 0, kZones = 1, kSwitches = 2, kLevels = 3;

bool is_reported(const Nest& nest, int level) {
  return level == kIslands ? nest.island > 0 : level == kZones ? !nest.zones.empty() : !nest.switches.empty();
}

/// -1 = no reported part.
std::int32_t part_of(const Nest& nest, int level, std::size_t device) {
  const auto gpu = static_cast<std::int32_t>(device);
  if (level == kIslands) return gpu / nest.island;
  if (level == kSwitches) return device < nest.switches.size() ? nest.switches[device] : -1;
  const auto zone =
      std::ranges::find_if(nest.zones, [&](const auto& z) { return std::ranges::count(z.gpus, gpu) > 0; });
  return zone == nest.zones.end() ? -1 : static_cast<std::int32_t>(zone - nest.zones.begin());
}

/// Number of parts of the devices, level by level from this one.
std::array<std::size_t, kLevels> spread_of(const Nest& nest, int level, const Devices& devices) {
  std::array<std::size_t, kLevels> out{};
  for (; level < kLevels; ++level) {
    if (!is_reported(nest, level)) continue;
    std::set<std::int32_t> parts;
    for (const auto device : devices) parts.insert(part_of(nest, level, device));
    out[static_cast<std::size_t>(level)] = parts.size();
  }
  return out;
}

/// `count` of the devices, which are in one part at each level before this one.
Devices nearest(const Nest& nest, int level, Devices devices, std::size_t count) {
  while (level < kLevels && !is_reported(nest, level)) ++level;
  if (level == kLevels || devices.size() <= count) {
    devices.resize(count);
    return devices;
  }
  std::map<std::int32_t, Devices> parts;
  for (const auto device : devices) parts[part_of(nest, level, device)].push_back(device);
  Devices out;
  while (out.size() < count) {
    const auto left = count - out.size();
    std::optional<std::tuple<bool, std::ptrdiff_t, std::array<std::size_t, kLevels>>> best;
    std::int32_t from = 0;
    Devices taken;
    for (const auto& [part, some] : parts) {
      const bool enough = some.size() >= left;
      auto here = nearest(nest, level + 1, some, std::min(left, some.size()));
      std::tuple key(!enough, enough ? std::ssize(some) : -std::ssize(some), spread_of(nest, level + 1, here));
      if (best && *best <= key) continue;
      best = key, from = part, taken = std::move(here);
    }
    out.insert(out.end(), taken.begin(), taken.end());
    parts.erase(from);  // used completely, or enough
  }
  return out;
}

}  // namespace

std::int32_t island_of(const Labels& labels) { return number_of(labels, kIslandLabel); }

std::int32_t shares_of(const NodeFacts& facts) {
  const auto shares = number_of(facts.labels, kSharesLabel);
  return shares > 1 && facts.gpus >= shares ? shares : 1;
}

std::int32_t gpu_of(const DeviceRef& device, std::int32_t shares) {
  return device.milli == 0 ? device.index : device.index / shares;  // an instance has its GPU's index
}

Nest nest_of(const NodeCapacity& capacity) {
  Nest nest{capacity.island, {}, {}};
  // On a node with shared GPUs a device is a share, but the reported parts are of GPUs.
  if (capacity.facts == nullptr || shares_of(*capacity.facts) > 1) return nest;
  nest.zones = capacity.facts->numa.zones;
  nest.switches = capacity.facts->switches;
  return nest;
}

std::vector<std::size_t> choose_devices(const std::vector<std::int32_t>& free_milli, const Nest& nest,
                                        std::int64_t count) {
  Devices idle;
  for (std::size_t i = 0; i < free_milli.size(); ++i) {
    if (free_milli[i] == 1000) idle.push_back(i);
  }
  QM_ASSERT(std::ssize(idle) >= count, "{} idle devices of {}", idle.size(), count);
  auto out = nearest(nest, 0, std::move(idle), static_cast<std::size_t>(count));
  std::ranges::sort(out);
  return out;
}

}  // namespace qm::placement
