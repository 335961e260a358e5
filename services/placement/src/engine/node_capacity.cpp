// How many pods fit a node's free capacity, and which devices a pod gets.
#include "qm/base/assert.hpp"
#include "qm/placement/numa.hpp"

#include <algorithm>
#include <limits>

namespace qm::placement {
namespace {

void limit(std::int64_t& pods, std::int64_t free, std::int64_t per_pod) {
  if (per_pod > 0) pods = std::min(pods, std::max<std::int64_t>(free, 0) / per_pod);
}

/// The GPU with the fewest idle instances that has one of the resource, of `first_choice` if possible.
std::optional<std::size_t> fullest_with(const NodeCapacity::Instances& idle, const std::string& resource,
                                        const std::vector<bool>& first_choice) {
  std::optional<std::size_t> best;
  std::pair<bool, std::int64_t> rank;
  for (std::size_t gpu = 0; gpu < idle.size(); ++gpu) {
    const auto has = idle[gpu].find(resource);
    if (has == idle[gpu].end() || has->second <= 0) continue;
    std::int64_t all = 0;
    for (const auto& [name, count] : idle[gpu]) all += count;
    const std::pair mine(gpu >= first_choice.size() || !first_choice[gpu], all);
    if (!best || mine < rank) best = gpu, rank = mine;
  }
  return best;
}

/// The GPUs of the instances for a pod; empty if the MIG layout is unknown.
std::vector<DeviceRef> take_instances(NodeCapacity& capacity, const NodeName& node, const GpuShape& gpu,
                                      const std::optional<ZoneMask>& zones) {
  std::vector<bool> aligned(capacity.instances.size());
  for (std::size_t zone = 0; zones && zone < capacity.zones.size(); ++zone) {
    for (const auto index : capacity.facts->numa.zones[zone].gpus) {
      if (index >= 0 && index < std::ssize(aligned))
        aligned[static_cast<std::size_t>(index)] = (*zones >> zone & 1U) != 0;
    }
  }
  const std::string resource = std::string(words::kMigPrefix) + gpu.mig_profile;
  NodeCapacity::Instances left = capacity.instances;
  std::vector<DeviceRef> out;
  for (std::int64_t n = 0; n < gpu.mig_count; ++n) {
    const auto at = fullest_with(left, resource, aligned);
    if (!at) return {};
    --left[*at][resource];
    out.push_back({node, static_cast<std::int32_t>(*at), {}, 0, gpu.mig_profile});
  }
  capacity.instances = std::move(left);
  return out;
}

}  // namespace

std::map<std::string, std::int64_t> counted(const PodShape& shape) {
  auto wanted = shape.extended;
  if (shape.gpu.mig_count > 0) wanted[std::string(words::kMigPrefix) + shape.gpu.mig_profile] += shape.gpu.mig_count;
  return wanted;
}

std::int64_t NodeCapacity::idle_gpus() const { return std::ranges::count(free_milli, 1000); }

std::int64_t NodeCapacity::gpu_milli() const {
  std::int64_t sum = 0;
  for (const auto free : free_milli) sum += free;
  return sum;
}

std::int64_t pods_that_fit(const NodeCapacity& capacity, const PodShape& shape) {
  std::int64_t pods = std::max<std::int64_t>(capacity.pods, 0);
  limit(pods, capacity.cpu_milli, shape.cpu_milli);
  limit(pods, capacity.memory_bytes, shape.memory_bytes);
  limit(pods, capacity.idle_gpus(), shape.gpu.whole);
  if (shape.gpu.milli > 0) {
    std::int64_t shares = 0;
    for (const auto free : capacity.free_milli) shares += free / shape.gpu.milli;
    pods = std::min(pods, shares);
  }
  for (const auto& [resource, amount] : counted(shape)) {
    const auto free = capacity.extended.find(resource);
    limit(pods, free == capacity.extended.end() ? 0 : free->second, amount);
  }
  return pods > 0 ? pods_that_align(capacity, shape, pods) : pods;
}

std::vector<DeviceRef> take(NodeCapacity& capacity, const NodeName& node, const PodShape& shape,
                            std::int32_t device_milli) {
  QM_ASSERT(pods_that_fit(capacity, shape) > 0, "node {} has no capacity for the pod", node);
  capacity.cpu_milli -= shape.cpu_milli;
  capacity.memory_bytes -= shape.memory_bytes;
  --capacity.pods;
  for (const auto& [resource, amount] : counted(shape)) capacity.extended[resource] -= amount;

  std::vector<DeviceRef> devices;
  const auto use = [&](std::size_t index, std::int32_t milli) {
    capacity.free_milli[index] -= milli;
    devices.push_back({node, static_cast<std::int32_t>(index), {}, milli, {}});
  };
  const auto zones = align(capacity, shape);
  if (shape.gpu.whole > 0) {
    const auto free = zones ? only_in(capacity, *zones) : capacity.free_milli;
    for (const auto i : choose_devices(free, nest_of(capacity), shape.gpu.whole)) use(i, 1000);
  }
  if (shape.gpu.milli > 0) {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < capacity.free_milli.size(); ++i) {
      if (capacity.free_milli[i] < shape.gpu.milli) continue;
      if (!best || capacity.free_milli[i] < capacity.free_milli[*best]) best = i;
      if (capacity.free_milli[i] != device_milli) continue;
      best = i;
      break;
    }
    use(best.value(), static_cast<std::int32_t>(shape.gpu.milli));
  }
  if (shape.gpu.mig_count > 0) devices = take_instances(capacity, node, shape.gpu, zones);
  take_from_zones(capacity, shape, devices);
  return devices;
}

}  // namespace qm::placement
