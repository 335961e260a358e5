#include "qm/placement/pack/node_state.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <bit>

namespace qm::placement::pack {

std::int64_t NodeState::free_milli() const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < gpus; ++i) sum += free[i];
  return sum;
}

std::int32_t NodeState::idle() const {
  std::int32_t count = 0;
  while (count < gpus && free[static_cast<std::size_t>(count)] == kDevice) ++count;
  return count;
}

bool fits(const NodeState& node, const PodClass& pod) {
  if (node.pods < 1 || node.cpu_milli < pod.cpu_milli || node.memory_bytes < pod.memory_bytes) return false;
  if (pod.gpus == 0) return true;
  // Devices are sorted by free capacity, most first: the last device that the pod needs decides.
  return pod.gpus <= node.gpus && (pod.models >> node.model & 1) != 0 &&
         node.free[static_cast<std::size_t>(pod.gpus) - 1] >= pod.gpu_milli;
}

NodeState with(const NodeState& node, const PodClass& pod, std::int32_t device_milli) {
  QM_ASSERT(fits(node, pod), "a pod of {} milli on {} devices does not fit", pod.gpu_milli, pod.gpus);
  NodeState next = node;
  next.cpu_milli -= pod.cpu_milli;
  next.memory_bytes -= pod.memory_bytes;
  next.pods -= 1;
  next.kinds = static_cast<std::uint16_t>(next.kinds | kind_of(pod));
  if (pod.gpus == 0) return next;
  const auto begin = next.free.begin(), end = begin + next.gpus;
  if (!pod.shares()) {
    // Whole devices lead the list: they become the empty ones at its end.
    std::rotate(begin, begin + pod.gpus, end);
    std::fill(end - pod.gpus, end, std::uint16_t{0});
    return next;
  }
  // The last of the devices with this much free; with what is left of it, the device moves back to
  // its sorted position.
  const auto behind = std::upper_bound(begin, end, device_milli, std::greater<>());
  QM_ASSERT(behind != begin && behind[-1] == device_milli && device_milli >= pod.gpu_milli,
            "no device has {} milli free for a share of {}", device_milli, pod.gpu_milli);
  const auto left = static_cast<std::uint16_t>(device_milli - pod.gpu_milli);
  auto place = behind - 1;
  for (; place + 1 != end && place[1] > left; ++place) *place = place[1];
  *place = left;
  return next;
}

std::uint16_t kind_of(const PodClass& pod) {
  if (pod.gpus == 0) return 0;
  return pod.shares() ? std::uint16_t{1} : static_cast<std::uint16_t>(1U << std::min(pod.gpus, 15));
}

std::size_t StateHash::operator()(const NodeState& state) const {
  std::uint64_t hash = 0x9E3779B97F4A7C15U;
  const auto fold = [&](std::uint64_t word) {
    hash = (hash ^ word) * 0xFF51AFD7ED558CCDU;
    hash ^= hash >> 32;
  };
  fold(static_cast<std::uint64_t>(state.cpu_milli));
  fold(static_cast<std::uint64_t>(state.memory_bytes));
  fold(static_cast<std::uint64_t>(state.pods) << 40 | std::uint64_t{state.kinds} << 24 |
       std::uint64_t{state.type} << 16 | std::uint64_t{state.model} << 8 | state.gpus);
  const auto words = std::bit_cast<std::array<std::uint64_t, kMaxDevices / 4>>(state.free);
  for (std::size_t i = 0; i * 4 < state.gpus; ++i) fold(words[i]);
  return hash;
}

}  // namespace qm::placement::pack
