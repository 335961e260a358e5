#pragma once
#include "qm/base/time.hpp"
#include "qm/model/ids.hpp"
#include "qm/model/resources.hpp"
#include "qm/placement/mig/node_layout.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::placement {

/// How the kubelet's Topology Manager treats pods whose CPUs, memory and devices span NUMA nodes.
enum class TopologyPolicy : std::uint8_t { kNone, kBestEffort, kRestricted, kSingleNumaNode };

/// Capacity of one NUMA node for pods, without the part reserved for the system.
struct NumaZone {
  std::int64_t cpu_milli = 0;      ///< 0 in all zones = not reported; the zones then do not limit CPU
  std::int64_t memory_bytes = 0;   ///< 0 in any zone: the same for memory
  std::vector<std::int32_t> gpus;  ///< GPU indexes
  friend auto operator<=>(const NumaZone&, const NumaZone&) = default;
};
struct Numa {
  TopologyPolicy policy = TopologyPolicy::kNone;
  std::vector<NumaZone> zones;  ///< empty = unknown
  friend auto operator<=>(const Numa&, const Numa&) = default;
};

/// Label of pods and workloads: training, inference, batch.
inline constexpr std::string_view kWorkloadType = "workload-type";

/// Pod label: the model that the pod loads. Label of nodes that have cached it:
/// "cache.quartermaster.dev/MODEL=true".
inline constexpr std::string_view kModelLabel = "quartermaster.dev/model";
inline constexpr std::string_view kCachePrefix = "cache.quartermaster.dev/";
/// Labels of mig-manager: the requested layout, and the state of the last request.
inline constexpr std::string_view kMigConfig = "nvidia.com/mig.config", kMigState = "nvidia.com/mig.config.state";

/// Label of a node that the autoscaler, or Karpenter, has found ready for pods: its extended resources are registered.
inline constexpr std::string_view kInitializedLabel = "karpenter.sh/initialized";

/// A node as the API server reports it.
struct NodeFacts {
  std::string provider_id, instance_type, zone, capacity_type, model;
  Labels labels;
  std::vector<Taint> taints;
  std::int64_t cpu_milli = 0;
  std::int64_t memory_bytes = 0;
  std::int32_t gpus = 0;                         ///< allocatable
  std::int32_t gpus_installed = 0;               ///< by label; exceeds `gpus` where the device plugin has removed a GPU
  std::map<std::string, std::int64_t> extended;  ///< any other allocatable resource
  std::optional<std::int64_t> pods;              ///< allocatable: maximum number of pods; none = not reported
  bool ready = false;
  bool unschedulable = false;
  std::string cordoned_by;                ///< our annotation: the causes of our cordon
  Numa numa;                              ///< our annotation, written by the node agent
  std::vector<std::int32_t> switches;     ///< by GPU index: the PCIe switch above it; empty = not reported
  std::vector<WorkloadUid> launched_for;  ///< the autoscaler's annotation: workloads that its instance was launched for
  friend auto operator<=>(const NodeFacts&, const NodeFacts&) = default;
};

/// GPUs and MIG instances that the node advertises. All replicas of a shared device count once.
[[nodiscard]] mig::Capacity advertised(const NodeFacts& facts);

enum class NodeState { kReady, kNotReady, kCordoned, kGone };

struct Node {
  NodeFacts facts;
  // As last published.
  NodeState state = NodeState::kNotReady;
  Instant since{};  ///< start of the state
  std::string reason;
  std::int32_t pods = 0;  ///< live members, and other pods except those of DaemonSets
  Instant empty_since{};
  // Internal marks.
  Instant not_ready_since{};
  bool cordon_sent = false;  ///< an order to set spec.unschedulable was sent
  bool kept = false;         ///< for the pods of the workloads that it was launched for
  Instant kept_since{};      ///< its time counts from then; zero = it is not initialized yet
  friend auto operator<=>(const Node&, const Node&) = default;
};

/// Health verdict on one GPU.
struct GpuVerdict {
  bool cordon = false;  ///< its XID requires more than a GPU reset
  std::string reason;
  Instant at{};  ///< time of its XID; zero = unknown
  friend auto operator<=>(const GpuVerdict&, const GpuVerdict&) = default;
};
/// Health verdicts on a node and its GPUs.
struct HealthVerdict {
  bool cordon = false;    ///< no new pods on the node
  std::int32_t gpu = -1;  ///< GPU with the most severe verdict; -1 = the whole node, and its pods are evicted
  std::int32_t xid = 0;
  std::string reason;
  std::map<std::int32_t, GpuVerdict> gpus{};  ///< by index: GPUs out of service; their pods are evicted
  friend auto operator<=>(const HealthVerdict&, const HealthVerdict&) = default;
};
struct DrainRequest {
  std::string reason;
  Instant deadline{};
  friend auto operator<=>(const DrainRequest&, const DrainRequest&) = default;
};
/// Causes that keep new pods off a node. A row of its own, since a verdict may arrive before the node.
struct NodeCordonCauses {
  std::optional<HealthVerdict> health;
  std::optional<DrainRequest> drain;
  std::optional<HealthVerdict> overridden{};  ///< verdicts at the time of a manual uncordon
  /// The verdicts in force, without the overridden ones; empty if none is left.
  [[nodiscard]] std::optional<HealthVerdict> verdict() const;
  friend auto operator<=>(const NodeCordonCauses&, const NodeCordonCauses&) = default;
};

/// Devices that the kubelet of a node allocated, by "namespace/pod".
struct Observation {
  Instant at{};
  std::map<std::string, std::vector<DeviceRef>> pods;
  friend auto operator<=>(const Observation&, const Observation&) = default;
};

[[nodiscard]] std::string_view name_of(TopologyPolicy value);
[[nodiscard]] std::string_view name_of(NodeState value);

}  // namespace qm::placement
