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

/// What a machine is made of, and what its kubelet makes of that, so that placement can foresee which pods it aligns, refuses or joins.

/// "0-3,8" as the kernel and the kubelet write sets of CPUs. kInvalid names the text.
[[nodiscard]] Result<std::set<int>> cpus_of(std::string_view text);

/// What we read of a KubeletConfiguration; what it leaves out has the kubelet's own default.
struct KubeletSettings {
  std::string topology_policy = "none", cpu_policy = "none", memory_policy = "None";
  std::set<int> reserved_cpus;
  std::map<int, std::int64_t> reserved_memory;  ///< bytes by NUMA node
};
/// kInvalid names the file and the field.
[[nodiscard]] Result<KubeletSettings> kubelet_settings(std::string_view yaml, const std::string& file);
/// In what it differs from the settings that are wanted: "topologyManagerPolicy is none, not single-numa-node".
[[nodiscard]] std::vector<std::string> differences(const KubeletSettings& is, const KubeletSettings& wanted);

struct NumaNode {
  std::set<int> cpus;
  std::int64_t memory_bytes = 0;
};
/// By number, from /sys/devices/system/node. kUnavailable: there is none.
[[nodiscard]] Result<std::map<int, NumaNode>> numa_nodes(const std::string& sysfs);

/// The NUMA node of a GPU. The kernel reports -1 for devices of most virtual machines; where the machine has one node, it is that
/// node. -1 = unknown.
[[nodiscard]] int node_of(const Device& device, const std::map<int, NumaNode>& nodes);

/// What placement reads on the node: "quartermaster.dev/numa". CPUs are told where the kubelet gives whole ones (policy static), without
/// those that it keeps; memory where it gives that by NUMA node. Empty where the NUMA node of a GPU is unknown: the kubelet asks no GPU there.
[[nodiscard]] std::string numa_annotation(const std::map<int, NumaNode>& nodes, const KubeletSettings& kubelet,
                                          const std::vector<Device>& devices);

/// The same for NCCL, as its NCCL_TOPO_FILE: GPUs under the sockets that they are on. NCCL looks up what is left out, so it holds no more than is
/// alike on all machines of a type.
[[nodiscard]] std::string nccl_topology(const std::map<int, NumaNode>& nodes, const std::vector<Device>& devices,
                                        const std::string& sysfs);

/// GPUs that NVLink joins, directly or by way of others, each island by index; those that it does not join are alone.
[[nodiscard]] std::vector<std::vector<std::int32_t>> islands_of(const std::vector<Device>& devices,
                                                                const std::vector<Joint>& joints);
/// gpu.nvidia.com/nvlink-enabled, and -gpus-per-island where the islands are runs of as many indexes each.
[[nodiscard]] std::map<std::string, std::string> island_labels(const std::vector<Device>& devices,
                                                               const std::vector<Joint>& joints);

/// quartermaster.dev/pcie-switches: by index of a GPU, the switch that it is under, counted from 0: "[0,0,1,1]". Empty where no two are under
/// one, as on boards where NVLink joins them all, or where a GPU is missing.
[[nodiscard]] std::string switches_annotation(const std::vector<Device>& devices, const std::vector<Joint>& joints);

/// quartermaster.dev/fabric-seen and -rails-seen: infiniband or roce, and how many ports are up at the highest speed, from
/// /sys/class/infiniband; none without such adapters.
[[nodiscard]] std::map<std::string, std::string> fabric_labels(const std::string& sysfs);

inline constexpr std::string_view kModelPrefix = "cache.quartermaster.dev/";
/// Labels for the models whose folders are there: "cache.quartermaster.dev/NAME: true". Names that are no labels are left out.
[[nodiscard]] std::map<std::string, std::string> model_labels(const std::string& folder);

}  // namespace qm::agent
