#pragma once
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace qm::placement::pack {

/// Numeric state of a node and a pod for placement. Equal nodes have equal states, whatever their names.
///
/// Units    CPU in milli-cores, memory in bytes, GPUs in milli-GPU (1000 = one device).
/// Bounds   kMaxDevices devices a node, kMaxModels GPU models a fleet.

inline constexpr int kDevice = 1000;
inline constexpr std::size_t kMaxDevices = 16;
inline constexpr int kMaxModels = 64;

/// Which GPU models: bit i = the model with number i.
using Models = std::uint64_t;
inline constexpr Models kAnyModel = std::numeric_limits<Models>::max();

/// Requests of a pod. Without `gpus` it requests none; a single device may be shared, several are whole.
struct PodClass {
  std::int64_t cpu_milli = 0;
  std::int64_t memory_bytes = 0;
  std::int32_t gpus = 0;
  std::int32_t gpu_milli = kDevice;  ///< of each device, 1 to 1000; below 1000 only where `gpus` is 1
  Models models = kAnyModel;         ///< allowed models; not used without GPUs
  [[nodiscard]] bool shares() const { return gpus == 1 && gpu_milli < kDevice; }
  [[nodiscard]] std::int64_t total_milli() const { return std::int64_t{gpus} * gpu_milli; }
  friend auto operator<=>(const PodClass&, const PodClass&) = default;
};

/// Free capacity of a node.
struct NodeState {
  std::int64_t cpu_milli = 0;
  std::int64_t memory_bytes = 0;
  std::int32_t pods = 0;    ///< number of pods that it may still run
  std::uint8_t type = 0;    ///< number of its hardware shape when empty; equal hardware has equal numbers
  std::uint8_t model = 0;   ///< number of its GPU model
  std::uint8_t gpus = 0;    ///< installed
  std::uint16_t kinds = 0;  ///< GPU pods on it: bit 0 shares, bit k pods of k devices
  std::array<std::uint16_t, kMaxDevices> free{};  ///< of each device, largest first; 0 after `gpus`
  [[nodiscard]] std::int64_t free_milli() const;
  [[nodiscard]] std::int32_t idle() const;  ///< devices without any use
  friend auto operator<=>(const NodeState&, const NodeState&) = default;
};

/// Whether a pod of the class fits the node now.
[[nodiscard]] bool fits(const NodeState& node, const PodClass& pod);

/// The node with the pod added. It must fit; a share is taken from a device with `device_milli` free.
[[nodiscard]] NodeState with(const NodeState& node, const PodClass& pod, std::int32_t device_milli);

/// The kind of a GPU pod as NodeState counts them; 0 for a pod without GPUs.
[[nodiscard]] std::uint16_t kind_of(const PodClass& pod);

struct StateHash {
  [[nodiscard]] std::size_t operator()(const NodeState& state) const;
};

}  // namespace qm::placement::pack
