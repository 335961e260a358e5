#pragma once
#include "devices.hpp"
#include "qm/base/result.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace qm::agent {

/// The node's hardware and its kubelet's configuration, so that placement can predict which pods the kubelet aligns
/// or refuses.

/// Parses "0-3,8", the format of the kernel and the kubelet for sets of CPUs. kInvalid names the text.
[[nodiscard]] Result<std::set<int>> cpus_of(std::string_view text);

/// The parsed part of a KubeletConfiguration; a missing field has the kubelet's default.
struct KubeletSettings {
  std::string topology_policy = "none", cpu_policy = "none", memory_policy = "None";
  std::set<int> reserved_cpus;
  std::map<int, std::int64_t> reserved_memory;  ///< bytes by NUMA node
};
/// Parses a KubeletConfiguration. kInvalid names the file and the field.
[[nodiscard]] Result<KubeletSettings> kubelet_settings(std::string_view yaml, const std::string& file);
/// The differences from the wanted settings: "topologyManagerPolicy is none, not single-numa-node".
[[nodiscard]] std::vector<std::string> differences(const KubeletSettings& is, const KubeletSettings& wanted);

struct NumaNode {
  std::set<int> cpus;
  std::int64_t memory_bytes = 0;
};
/// The NUMA nodes by number, from /sys/devices/system/node. kUnavailable: there are none.
[[nodiscard]] Result<std::map<int, NumaNode>> numa_nodes(const std::string& sysfs);

/// The NUMA node of a GPU. The kernel reports -1 for devices of most virtual machines; on a host with one NUMA node
/// it is that node. -1 = unknown.
[[nodiscard]] int node_of(const Device& device, const std::map<int, NumaNode>& nodes);

/// The annotation "quartermaster.dev/numa", which placement reads. It has CPUs, without the reserved ones, if the
/// kubelet allocates whole CPUs (policy static), and memory if the kubelet allocates it by NUMA node. Empty if the
/// NUMA node of a GPU is unknown: the kubelet then does not align that GPU.
[[nodiscard]] std::string numa_annotation(const std::map<int, NumaNode>& nodes, const KubeletSettings& kubelet,
                                          const std::vector<Device>& devices);

/// The same for NCCL, as its NCCL_TOPO_FILE: GPUs under their sockets. NCCL detects what is omitted, so the file
/// holds only what is identical on all nodes of an instance type.
[[nodiscard]] std::string nccl_topology(const std::map<int, NumaNode>& nodes, const std::vector<Device>& devices,
                                        const std::string& sysfs);

/// GPUs connected by NVLink, directly or through others, each island sorted by index; an unconnected GPU is an island
/// of one.
[[nodiscard]] std::vector<std::vector<std::int32_t>> islands_of(const std::vector<Device>& devices,
                                                                const std::vector<Joint>& joints);
/// gpu.nvidia.com/nvlink-enabled, and -gpus-per-island if all islands are runs of consecutive indexes of equal length.
[[nodiscard]] std::map<std::string, std::string> island_labels(const std::vector<Device>& devices,
                                                               const std::vector<Joint>& joints);

/// quartermaster.dev/pcie-switches: for each GPU by index, its PCIe switch, counted from 0: "[0,0,1,1]". Empty if no
/// two GPUs share a switch, as on boards where NVLink connects them all, or if a GPU is missing.
[[nodiscard]] std::string switches_annotation(const std::vector<Device>& devices, const std::vector<Joint>& joints);

/// quartermaster.dev/fabric-seen and -rails-seen: infiniband or roce, and the number of active ports at the highest
/// speed, from /sys/class/infiniband; none without such adapters.
[[nodiscard]] std::map<std::string, std::string> fabric_labels(const std::string& sysfs);

inline constexpr std::string_view kModelPrefix = "cache.quartermaster.dev/";
/// Labels for the model folders: "cache.quartermaster.dev/NAME: true". Names that are not valid label names are
/// omitted.
[[nodiscard]] std::map<std::string, std::string> model_labels(const std::string& folder);

}  // namespace qm::agent
