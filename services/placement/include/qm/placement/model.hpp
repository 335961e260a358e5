#pragma once
#include "qm/base/table.hpp"
#include "qm/base/time.hpp"
#include "qm/kube_rules/pod_rules.hpp"
#include "qm/model/resources.hpp"
#include "qm/placement/mig/node_layout.hpp"
#include "qm/placement/mig_repartition.hpp"
#include "qm/placement/proposals.hpp"
#include "qm/placement/relayout.hpp"

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace qm::placement {

namespace rules = kube_rules;  ///< constraints of pods and nodes, as kube-scheduler evaluates them

/// Number of pods where there is no limit.
inline constexpr std::int64_t kAnyNumber = std::numeric_limits<std::int32_t>::max();

/// Rows of the placement engine: observed facts and decisions. Plain values without behavior.
///
/// Units    GPUs in milli-GPU (1000 = one device), CPU in milli-cores, memory in bytes; a zero Instant = not yet.

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
  std::string cordoned_by;             ///< our annotation: the causes of our cordon
  Numa numa;                           ///< our annotation, written by the node agent
  std::vector<std::int32_t> switches;  ///< by GPU index: the PCIe switch above it; empty = not reported
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

/// A PersistentVolumeClaim.
struct Claim {
  std::string volume;         ///< bound volume; empty = not bound
  std::string storage_class;  ///< empty = none
  std::string selected_node;  ///< node for which a volume is being provisioned
  bool one_node = false;      ///< its volume can be used on one node at a time
  std::string made_for{};     ///< uid of the pod that owns the claim; empty = an independent claim
  friend auto operator<=>(const Claim&, const Claim&) = default;
};
/// A PersistentVolume.
struct Volume {
  /// rules::text_of a template that has only the volumes of this one: nodes that can use it; empty = all
  /// nodes.
  std::string reach;
  std::string driver{}, handle{};  ///< CSI driver, and the driver's volume handle; empty = no driver attaches it
  std::string claim{};             ///< NAMESPACE/NAME of the claim that the volume is reserved for; empty = none
  friend auto operator<=>(const Volume&, const Volume&) = default;
};
struct StorageClass {
  bool waits = false;    ///< WaitForFirstConsumer: volumes are provisioned for the first pod's node
  bool makes = false;    ///< has a provisioner; false: volumes are created manually
  std::string reach;     ///< nodes that can use its volumes, in the format of Volume::reach
  std::string driver{};  ///< the provisioner's CSI driver
  /// Used by claims without a class. Of several default classes the newest counts, then the first by name.
  bool by_default = false;
  Instant made{};  ///< creation time of a default class
  friend auto operator<=>(const StorageClass&, const StorageClass&) = default;
};
/// A CSINode: attach limit of the node by driver. Drivers that are absent have no limit.
struct AttachLimits {
  std::map<std::string, std::int64_t> volumes;
  friend auto operator<=>(const AttachLimits&, const AttachLimits&) = default;
};
/// Storage objects of the API server, by "claim/NAMESPACE/NAME", "volume/NAME", "class/NAME" and
/// "limits/NODE".
using Storage = std::variant<Claim, Volume, StorageClass, AttachLimits>;
/// MIG partitioning of a node's GPUs: the newest order and its progress.
struct Repartition {
  std::optional<relayout::Row> order;    ///< the newest order; it stays here after it has ended
  bool by_default = false;               ///< the order comes from the default layout
  std::string written_label;             ///< last layout written to the label in this phase
  std::map<std::string, Instant> asked;  ///< by occupant: when it was asked to save and leave
  Instant wake{};                        ///< next time to evaluate the order; zero = none
  Instant differs_since{};               ///< since then the node advertises other devices than its labeled layout has
  bool mismatch = false;                 ///< the difference has lasted past the limit and needs a person
  std::optional<RepartitionHold> reserved_for;  ///< pending workload that it is for; none = by a user or by default
  friend auto operator<=>(const Repartition&, const Repartition&) = default;
};
/// Layout of nodes that have no order of their own.
struct DefaultLayout {
  std::string layout;           ///< empty = none
  bool override_label = false;  ///< also where the node's label names another layout
  friend auto operator<=>(const DefaultLayout&, const DefaultLayout&) = default;
};

/// How long a pod with unknown tolerations stays on a NotReady node: the default that the API server adds.
inline constexpr std::int64_t kDefaultTolerationSeconds = 300;

enum class PodPhase { kPending, kRunning, kSucceeded, kFailed };

/// A pod as the API server reports it, scheduled by us or not.
struct PodFacts {
  std::string uid;
  std::string ns, name;
  WorkloadUid owner;            ///< workload that the pod names: by annotation, else its controller; see ownership.hpp
  WorkloadUid controller;       ///< uid of its controller owner reference; empty = it has none
  std::string controller_kind;  ///< kind in that owner reference
  std::int32_t attempt = 0;     ///< by annotation; 0 = none
  std::string pod_set;          ///< empty = the first set
  std::int32_t index = -1;
  NodeName node;  ///< empty = not bound
  PodPhase phase = PodPhase::kPending;
  bool deleting = false;
  bool ours = false;    ///< its schedulerName is ours
  bool daemon = false;  ///< owned by a DaemonSet, or a static pod
  PodShape shape;
  std::string rules;          ///< rules::text_of its template without requests; empty = unknown
  std::string workload_type;  ///< by label
  /// Seconds that the pod stays on a node with the NoExecute taint node.kubernetes.io/not-ready or
  /// /unreachable; -1 = without limit.
  std::int64_t not_ready_s = kDefaultTolerationSeconds, unreachable_s = kDefaultTolerationSeconds;
  [[nodiscard]] bool terminal() const { return phase == PodPhase::kSucceeded || phase == PodPhase::kFailed; }
  [[nodiscard]] std::string key() const { return ns + "/" + name; }
  friend auto operator<=>(const PodFacts&, const PodFacts&) = default;
};
/// What placement wrote in the pod's bind. The annotation on the pod is not read back, since its author may
/// change it.
struct PlannedBind {
  NodeName node;                   ///< empty = no bind ordered for this row
  std::vector<std::int32_t> gpus;  ///< by index
  friend auto operator<=>(const PlannedBind&, const PlannedBind&) = default;
};
struct Pod {
  PodFacts facts;
  bool delete_sent = false;
  PlannedBind plan{};
  bool foreign = false;  ///< reported: the pod names a workload that does not own it
  /// GPUs that placement planned for the pod on its current node.
  [[nodiscard]] std::vector<std::int32_t> planned_gpus() const {
    return plan.node == facts.node ? plan.gpus : std::vector<std::int32_t>();
  }
  friend auto operator<=>(const Pod&, const Pod&) = default;
};

enum class WorkloadPhase { kPending, kQuotaReserved, kAdmitted, kEvicting, kFinished, kCancelled };

/// Pods of a running gang that have no node, since none of the free capacity fits them.
struct UnplacedPods {
  std::vector<std::int32_t> by_set;  ///< empty = none
  Instant since{};
  friend auto operator<=>(const UnplacedPods&, const UnplacedPods&) = default;
};

/// Latest state of a workload that admission published.
struct Workload {
  WorkloadSpec spec;
  std::int32_t attempt = 0;
  WorkloadPhase phase = WorkloadPhase::kPending;
  Instant quota_reserved{};
  std::string order_reason;  ///< of the eviction order
  Instant order_deadline{};
  Instant short_since{};                                 ///< on the demand list since; zero = not on it
  std::set<std::pair<std::int32_t, std::int32_t>> done;  ///< (pod set, rank) whose pod has succeeded in any attempt
  QuotaFacts quota_facts;
  Instant fits_since{};  ///< on the requeue list since: pending, was short, now fits; zero = not on it
  UnplacedPods unplaced;
  friend auto operator<=>(const Workload&, const Workload&) = default;
};

enum class AssignmentState { kReserved, kShort, kBound, kReleased, kExpired };

/// One pod of a gang, with its node and devices.
struct Member {
  std::int32_t set = 0;    ///< index of its pod set
  std::int32_t index = 0;  ///< rank in the pod set
  NodeName node;
  std::vector<DeviceRef> devices;
  std::string pod, pod_uid;  ///< current pod of this member
  bool bind_sent = false;
  Instant bound{};     ///< first time a pod of this member was bound
  Instant released{};  ///< when its devices were released
  bool lost = false;   ///< lost with its node: the rank is missing and may be placed again
  [[nodiscard]] bool live() const { return released == Instant{}; }
  friend auto operator<=>(const Member&, const Member&) = default;
};

/// A request to admission to evict an attempt.
struct EvictionRequest {
  std::string reason, message;
  Instant deadline{};
  NodeName node;
  bool pods_lost = false;
  /// Until then the ranks save by an order of the autoscaler, which then evicts them. Zero = evict now.
  Instant save_until{};
  friend auto operator<=>(const EvictionRequest&, const EvictionRequest&) = default;
};

/// The placement decision for one (uid, attempt).
struct Assignment {
  Namespace ns;
  std::string workload;
  Team team;
  Labels labels;  ///< words::kChargebackLabels only
  std::vector<PodSet> pod_sets;
  std::vector<std::string> rules;  ///< by pod set, in the format of PodFacts::rules; empty where no pod was known
  AssignmentState state = AssignmentState::kShort;
  /// Empty in state Short. Of an elastic gang: all ranks that are or were placed, in the order in which they
  /// were added.
  std::vector<Member> members;
  std::string short_reason;
  Instant decided{};
  Instant expires{};       ///< zero = never
  Instant ended{};         ///< when it was released or expired
  bool confirmed = false;  ///< admission has published Admitted
  std::optional<EvictionRequest> eviction;
  std::uint64_t revision = 0;  ///< number of publications
  [[nodiscard]] bool holds() const { return state == AssignmentState::kReserved || state == AssignmentState::kBound; }
  friend auto operator<=>(const Assignment&, const Assignment&) = default;
};

/// A new assignment of the workload, before its decision.
[[nodiscard]] Assignment assignment_for(const WorkloadSpec& spec);

/// Single values of the engine.
struct Meta {
  bool nodes_synced = false, pods_synced = false;  ///< a complete list was received since the watch started
  /// Kinds of storage with a complete list since the first start: "claim", "volume", "class", "limits".
  std::set<std::string> storage_listed;
  std::int64_t next_intent = 1;
  std::int64_t next_proposal = 1;
  Instant searched{};  ///< last search for preemption victims
  DefaultLayout layout;
  Instant repartition_searched{};    ///< last search for a MIG repartition
  std::vector<Instant> repartition;  ///< times of repartitions for pending workloads that count toward the budget
  /// Next comparison of pending workloads with the free capacity. Zero = when capacity is added.
  Instant requeue_at{};
  std::int32_t requeue_round = 0;  ///< offers since then that left capacity unused
  friend auto operator<=>(const Meta&, const Meta&) = default;
};

/// Size of a pod.
struct PodSize {
  std::int64_t cpu_milli = 0;
  std::int32_t devices = 0, device_milli = 0;  ///< number of GPUs; part of each
  std::vector<std::string> models;             ///< GPU models; empty = any
  friend auto operator<=>(const PodSize&, const PodSize&) = default;
};
/// Hardware shape of a node.
struct NodeShape {
  std::string model;
  std::int64_t cpu_milli = 0, memory_bytes = 0;
  std::int32_t gpus = 0;
  friend auto operator<=>(const NodeShape&, const NodeShape&) = default;
};
/// The demand and the fleet that node scores depend on. This row is updated only when the known mix has
/// drifted, so that cached scores stay valid: see Preference::has_drifted().
struct DemandMix {
  std::map<PodSize, std::int64_t> pods;
  std::map<NodeShape, std::int64_t> machines;
  friend auto operator<=>(const DemandMix&, const DemandMix&) = default;
};

/// The complete state.
struct Tables {
  Table<NodeName, Node> nodes;
  Table<NodeName, NodeCordonCauses> cordon_causes;
  Table<NodeName, Observation> observations;
  Table<std::string, Pod> pods;  ///< by uid
  Table<std::string, Storage> storage;
  Table<NodeName, NodeReport> report;  ///< written by node agents, limited to the allowed labels and annotations
  Table<WorkloadUid, Workload> workloads;
  Table<AttemptId, Assignment> assignments;
  Table<NodeName, Repartition> repartitions;
  Table<std::string, mig::Definition> layouts;  ///< by name: the layouts of mig-parted's list
  Table<int, Meta> meta;                        ///< one row, key 0
  Table<int, DemandMix> mix;                    ///< one row, key 0
  Table<WorkloadUid, Proposal> proposals;
  Table<int, DefragRun> defrag_run;  ///< one row, key 0

  template <class Fn>
  void each(Fn&& fn) {
    fn(nodes), fn(cordon_causes), fn(observations), fn(pods), fn(storage), fn(report), fn(workloads), fn(assignments),
        fn(repartitions), fn(layouts), fn(meta), fn(mix), fn(proposals), fn(defrag_run);
  }
};

[[nodiscard]] std::string_view name_of(TopologyPolicy policy);
[[nodiscard]] std::string_view name_of(NodeState state);
[[nodiscard]] std::string_view name_of(AssignmentState state);
[[nodiscard]] std::string_view name_of(WorkloadPhase phase);

}  // namespace qm::placement
