#pragma once
#include "qm/base/result.hpp"
#include "sharing.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace qm::agent {

/// A MIG instance of a GPU.
struct Slice {
  std::string uuid;     ///< "MIG-..."
  std::string profile;  ///< "1g.10gb", as in the name of its resource
  friend auto operator<=>(const Slice&, const Slice&) = default;
};
/// A GPU of this node.
struct Device {
  std::int32_t index = 0;
  std::string uuid;        ///< "GPU-..."
  std::int32_t numa = -1;  ///< -1 = unknown
  bool mig = false;        ///< MIG mode is on: pods hold its instances, never the whole GPU
  std::vector<Slice> slices;
  std::int64_t memory_mib = 0;  ///< 0 = unknown
  std::string pci;              ///< "0000:1b:00.0"; empty = unknown
  friend auto operator<=>(const Device&, const Device&) = default;
};

/// The connection between two GPUs, as nvidia-smi topo names it, the fastest first.
enum class Join : std::uint8_t { kNvlink, kPix, kPxb, kPhb, kNode, kSys };
struct Joint {
  std::int32_t a = 0, b = 0;  ///< indexes of the GPUs, a < b
  Join by = Join::kSys;
  friend auto operator<=>(const Joint&, const Joint&) = default;
};

/// The GPUs of this node, as its driver reports them.
class DeviceSource {
 public:
  virtual ~DeviceSource() = default;
  /// Sorted by index, without GPUs that fell off the bus. kUnavailable: there is no driver, or it does not answer.
  /// Any thread; a few milliseconds.
  virtual Result<std::vector<Device>> devices() = 0;
  /// The connection of each pair; empty if the driver cannot report it. Fails, threads and cost as devices().
  virtual Result<std::vector<Joint>> joints() { return std::vector<Joint>(); }
};
/// Reads the driver's management library, which is loaded at the first call and again after a failure.
std::unique_ptr<DeviceSource> nvml_devices(std::string library = "libnvidia-ml.so.1");

/// A unit that a kubelet counts: a GPU, a MIG instance, or one share of either ("<uuid>::<n>").
struct Unit {
  std::string id;
  std::int32_t gpu = 0;  ///< index of the GPU that it is or belongs to
  std::int32_t numa = -1;
  /// The index that placement uses: the GPU's, or the instance's number if instances count as GPUs.
  std::int32_t assigned_as = 0;
  std::int64_t memory_mib = 0;  ///< of the GPU
  friend auto operator<=>(const Unit&, const Unit&) = default;
};
/// The units of each resource: whole GPUs as nvidia.com/gpu, MIG instances as nvidia.com/mig-<profile>, or as
/// `sharing` defines.
[[nodiscard]] std::map<std::string, std::vector<Unit>> units_of(const std::vector<Device>& devices,
                                                                const Sharing& sharing);

/// The device of a unit's id: the id without the number of the share.
[[nodiscard]] std::string_view device_of(std::string_view id);

}  // namespace qm::agent
