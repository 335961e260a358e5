#pragma once
#include "qm/base/table.hpp"
#include "qm/base/time.hpp"
#include "qm/model/resources.hpp"
#include "qm/placement/mig/node_layout.hpp"
#include "qm/placement/proposals.hpp"
#include "qm/placement/recut.hpp"
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

/// The count of pods where nothing bounds it.
inline constexpr std::int64_t kAnyNumber = std::numeric_limits<std::int32_t>::max();

/// The rows of the placement engine: what it was told (facts), and what it decided. Plain values, no behaviour.
///
/// Units    GPUs in milli-GPU (1000 = one device), CPU in milli-cores, memory in bytes; a zero Instant = not yet.

/// What the kubelet's Topology Manager does with pods whose CPUs, memory and devices are not of one NUMA node.
enum class TopologyPolicy : std::uint8_t { kNone, kBestEffort, kRestricted, kSingleNumaNode };

/// What pods may have of one NUMA node: what is reserved for the system is not in it.
struct NumaZone {
  std::int64_t cpu_milli = 0;      ///< 0 in all zones = not told, and not looked at
  std::int64_t memory_bytes = 0;   ///< 0 in any zone: the same
  std::vector<std::int32_t> gpus;  ///< their indexes
  friend auto operator<=>(const NumaZone&, const NumaZone&) = default;
};
struct Numa {
  TopologyPolicy policy = TopologyPolicy::kNone;
  std::vector<NumaZone> zones;  ///< none = not known
  friend auto operator<=>(const Numa&, const Numa&) = default;
};

/// Label of pods and workloads: training, inference, batch.
inline constexpr std::string_view kWorkloadType = "workload-type";

/// Label of pods: the model that they load; and of nodes that have it already, "cache.quartermaster.dev/MODEL=true".
inline constexpr std::string_view kModelLabel = "quartermaster.dev/model";
inline constexpr std::string_view kCachePrefix = "cache.quartermaster.dev/";
/// Labels by which mig-manager is told a layout and tells what became of it.
inline constexpr std::string_view kMigConfig = "nvidia.com/mig.config", kMigState = "nvidia.com/mig.config.state";

/// What the API server says of a node.
struct NodeFacts {
  std::string provider_id, instance_type, zone, capacity_type, model;
  Labels labels;
  std::vector<Taint> taints;
  std::int64_t cpu_milli = 0;
  std::int64_t memory_bytes = 0;
  std::int32_t gpus = 0;                         ///< allocatable
  std::int32_t gpus_installed = 0;               ///< by label; may exceed `gpus` where the plugin took one out
  std::map<std::string, std::int64_t> extended;  ///< any other allocatable resource
  std::optional<std::int64_t> pods;              ///< allocatable: that it may run; none = not told
  bool ready = false;
  bool unschedulable = false;
  std::string cordoned_by;             ///< our annotation: the causes we cordoned it for
  Numa numa;                           ///< our annotation, from the node's agent
  std::vector<std::int32_t> switches;  ///< by index of a GPU, the PCIe switch that it is under; empty = not told
  friend auto operator<=>(const NodeFacts&, const NodeFacts&) = default;
};

/// GPUs and MIG instances of the node by what it advertises: shares of one count once.
[[nodiscard]] mig::Capacity advertised(const NodeFacts& facts);

enum class NodeState { kReady, kNotReady, kCordoned, kGone };

struct Node {
  NodeFacts facts;
  // As last published.
  NodeState state = NodeState::kNotReady;
  Instant since{};  ///< of the state
  std::string reason;
  std::int32_t pods = 0;  ///< live members, and other pods that are no daemons
  Instant empty_since{};
  // Own marks.
  Instant not_ready_since{};
  bool cordon_sent = false;  ///< we ordered spec.unschedulable
  friend auto operator<=>(const Node&, const Node&) = default;
};

/// A verdict on one GPU.
struct GpuMark {
  bool cordon = false;  ///< its XID asks for more than a reset of the GPU
  std::string reason;
  Instant at{};  ///< of its XID; zero = unknown
  friend auto operator<=>(const GpuMark&, const GpuMark&) = default;
};
/// Verdicts on a node and on its GPUs.
struct HealthMark {
  bool cordon = false;    ///< nothing new on the node
  std::int32_t gpu = -1;  ///< that the heaviest verdict is on; -1 = the node as a whole, whose pods are evicted
  std::int32_t xid = 0;
  std::string reason;
  std::map<std::int32_t, GpuMark> gpus{};  ///< by index: out of service, and their pods are evicted
  friend auto operator<=>(const HealthMark&, const HealthMark&) = default;
};
struct DrainMark {
  std::string reason;
  Instant deadline{};
  friend auto operator<=>(const DrainMark&, const DrainMark&) = default;
};
/// Why nothing new may land on a node, by cause. Kept apart from the node: the verdict may come before the node.
struct NodeMark {
  std::optional<HealthMark> health;
  std::optional<DrainMark> drain;
  std::optional<HealthMark> overridden{};  ///< the verdicts as they were when the node was uncordoned manually
  /// The verdicts that count: without those that are overridden; empty where none is left.
  [[nodiscard]] std::optional<HealthMark> verdict() const;
  friend auto operator<=>(const NodeMark&, const NodeMark&) = default;
};

/// What the kubelet of a node really gave, by "namespace/pod".
struct Observation {
  Instant at{};
  std::map<std::string, std::vector<DeviceRef>> pods;
  friend auto operator<=>(const Observation&, const Observation&) = default;
};

/// A PersistentVolumeClaim.
struct Claim {
  std::string volume;         ///< that it is bound to; empty = to none yet
  std::string storage_class;  ///< empty = none
  std::string selected_node;  ///< for whose pod a volume is being made
  bool one_node = false;      ///< its volume can be used on one node at a time
  std::string made_for{};     ///< uid of the pod that it was made for, and goes with; empty = it is there by itself
  friend auto operator<=>(const Claim&, const Claim&) = default;
};
/// A PersistentVolume.
struct Volume {
  std::string
      reach;  ///< rules::text_of a template that has its volumes alone: from where it can be used; empty = from anywhere
  std::string driver{}, handle{};  ///< of CSI, and by which it knows the volume; empty = no driver attaches it
  std::string claim{};             ///< NAMESPACE/NAME of the claim that it is for; empty = nobody's yet
  friend auto operator<=>(const Volume&, const Volume&) = default;
};
struct StorageClass {
  bool waits = false;       ///< volumes are made where the first pod is, not when they are claimed
  bool makes = false;       ///< volumes at all: else somebody does by hand
  std::string reach;        ///< where it can make them, as Volume has it
  std::string driver{};     ///< that makes them
  bool by_default = false;  ///< for claims that name none; of several the one made last, then the first by name
  Instant made{};           ///< of a default one
  friend auto operator<=>(const StorageClass&, const StorageClass&) = default;
};
/// A CSINode: how many volumes of each driver may be attached to the node; drivers that are not named have no bound.
struct AttachLimits {
  std::map<std::string, std::int64_t> volumes;
  friend auto operator<=>(const AttachLimits&, const AttachLimits&) = default;
};
/// What the API server says of storage, by "claim/NAMESPACE/NAME", "volume/NAME", "class/NAME" and "limits/NODE".
using Storage = std::variant<Claim, Volume, StorageClass, AttachLimits>;
/// How the GPUs of a node are to be cut, and whether they are.
struct Cut {
  std::optional<relayout::Row> order;    ///< the newest; it stays when it is over
  bool by_default = false;               ///< nobody asked for it on this node
  std::string labelled;                  ///< what it last had the node labelled with, in its phase
  std::map<std::string, Instant> asked;  ///< by occupant: told to save and go
  Instant wake{};                        ///< the order may go on by itself then; zero = not
  Instant differs_since{};               ///< the node advertises other devices than its label's layout has
  bool mismatch = false;                 ///< for so long that somebody has to look
  std::optional<CutFor> wish;            ///< nobody ordered it: it is for a workload that waits
  friend auto operator<=>(const Cut&, const Cut&) = default;
};
/// What nodes are cut into that have no order of their own.
struct DefaultLayout {
  std::string layout;         ///< empty = nothing
  bool labelled_too = false;  ///< also where somebody named another layout by the label
  friend auto operator<=>(const DefaultLayout&, const DefaultLayout&) = default;
};

/// How long a pod stays on a node that is not ready where nothing is known of its tolerations: what the API server adds by default.
inline constexpr std::int64_t kDefaultTolerationSeconds = 300;

enum class PodPhase { kPending, kRunning, kSucceeded, kFailed };

/// What the API server says of a pod, ours or not.
struct PodFacts {
  std::string uid;
  std::string ns, name;
  WorkloadUid owner;            ///< workload that it names: by annotation, else its controller; see ownership.hpp
  WorkloadUid controller;       ///< uid of its controller owner reference; empty = it has none
  std::string controller_kind;  ///< kind in that owner reference
  std::int32_t attempt = 0;     ///< annotation; 0 = none
  std::string pod_set;          ///< empty = the first
  std::int32_t index = -1;
  NodeName node;  ///< empty = not bound
  PodPhase phase = PodPhase::kPending;
  bool deleting = false;
  bool ours = false;    ///< schedulerName is ours
  bool daemon = false;  ///< owned by a DaemonSet or by the node itself
  PodShape shape;
  std::string rules;          ///< rules::text_of its template, less its requests; empty = not known
  std::string workload_type;  ///< label
  /// Seconds that it stays on a node with the NoExecute taint node.kubernetes.io/not-ready or /unreachable; -1 = as long as that is so.
  std::int64_t not_ready_s = kDefaultTolerationSeconds, unreachable_s = kDefaultTolerationSeconds;
  [[nodiscard]] bool terminal() const { return phase == PodPhase::kSucceeded || phase == PodPhase::kFailed; }
  [[nodiscard]] std::string key() const { return ns + "/" + name; }
  friend auto operator<=>(const PodFacts&, const PodFacts&) = default;
};
/// What the bind of a pod says. The annotation on the pod is not read back: its author may change it.
struct BoundPlan {
  NodeName node;                   ///< empty = this row ordered no bind
  std::vector<std::int32_t> gpus;  ///< by index
  friend auto operator<=>(const BoundPlan&, const BoundPlan&) = default;
};
struct Pod {
  PodFacts facts;
  bool delete_sent = false;
  BoundPlan plan{};
  bool foreign = false;  ///< reported: it names a workload that it is no pod of
  /// GPUs that placement planned for it on the node that it is on.
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

/// The newest that admission said about a workload.
struct Workload {
  WorkloadSpec spec;
  std::int32_t attempt = 0;
  WorkloadPhase phase = WorkloadPhase::kPending;
  Instant quota_reserved{};
  std::string order_reason;  ///< of the eviction order
  Instant order_deadline{};
  Instant short_since{};                                 ///< on the demand list since; zero = not on it
  std::set<std::pair<std::int32_t, std::int32_t>> done;  ///< (pod set, rank) whose pod succeeded, in whichever attempt
  QuotaStanding standing;
  Instant fits_since{};  ///< pending, short before, and found to fit: on the requeue list; zero = not on it
  UnplacedPods unplaced;
  friend auto operator<=>(const Workload&, const Workload&) = default;
};

enum class AssignmentState { kReserved, kShort, kBound, kReleased, kExpired };

/// One pod of a gang and what is kept for it.
struct Member {
  std::int32_t set = 0;    ///< position of its pod set
  std::int32_t index = 0;  ///< rank in the pod set
  NodeName node;
  std::vector<DeviceRef> devices;
  std::string pod, pod_uid;  ///< the pod that has the place now
  bool bind_sent = false;
  Instant bound{};     ///< first time a pod of this member was bound
  Instant released{};  ///< devices free again
  bool lost = false;   ///< with its node: its rank is missing, and may have another place
  [[nodiscard]] bool live() const { return released == Instant{}; }
  friend auto operator<=>(const Member&, const Member&) = default;
};

/// A wish to have an attempt evicted, as asked from admission.
struct EvictionAsk {
  std::string reason, message;
  Instant deadline{};
  NodeName node;
  bool pods_lost = false;
  Instant save_until{};  ///< its ranks save first, by the autoscaler's order, and it evicts; zero = it is to go now
  friend auto operator<=>(const EvictionAsk&, const EvictionAsk&) = default;
};

/// The answer for one (uid, attempt).
struct Assignment {
  Namespace ns;
  std::string workload;
  Team team;
  Labels labels;  ///< words::kChargebackLabels only
  std::vector<PodSet> pod_sets;
  std::vector<std::string> rules;  ///< by pod set, as PodFacts has them; empty where no pod was known
  AssignmentState state = AssignmentState::kShort;
  std::vector<Member>
      members;  ///< empty where Short; of an elastic gang the ranks that have or had a place, those that came later behind
  std::string short_reason;
  Instant decided{};
  Instant expires{};       ///< zero = does not
  Instant ended{};         ///< released or expired
  bool confirmed = false;  ///< admission said Admitted
  std::optional<EvictionAsk> eviction;
  std::uint64_t revision = 0;  ///< how often it was published
  [[nodiscard]] bool holds() const { return state == AssignmentState::kReserved || state == AssignmentState::kBound; }
  friend auto operator<=>(const Assignment&, const Assignment&) = default;
};

/// The answer before it is one: whose it is, and for what.
[[nodiscard]] Assignment assignment_for(const WorkloadSpec& spec);

/// What is one of a kind.
struct Meta {
  bool nodes_synced = false, pods_synced = false;  ///< a complete list was heard since the watch started
  std::set<std::string>
      storage_told;  ///< kinds of storage of which a complete list was ever heard: "claim", "volume", "class", "limits"
  std::int64_t next_intent = 1;
  std::int64_t next_proposal = 1;
  Instant searched{};  ///< when it was last looked for who might give way
  DefaultLayout layout;
  Instant recut_searched{};    ///< when it was last looked for what might be cut anew
  std::vector<Instant> recut;  ///< orders for workloads that wait, as far as they count for the budget
  Instant requeue_at{};  ///< when pending workloads are next compared with the free capacity; zero = when it grows
  std::int32_t requeue_round = 0;  ///< offers since then that left capacity free
  friend auto operator<=>(const Meta&, const Meta&) = default;
};

/// Pods of one size, however many and whose.
struct PodSize {
  std::int64_t cpu_milli = 0;
  std::int32_t devices = 0, device_milli = 0;  ///< GPUs, and of each
  std::vector<std::string> models;             ///< of GPUs; empty = any
  friend auto operator<=>(const PodSize&, const PodSize&) = default;
};
/// Nodes of one make.
struct Machine {
  std::string model;
  std::int64_t cpu_milli = 0, memory_bytes = 0;
  std::int32_t gpus = 0;
  friend auto operator<=>(const Machine&, const Machine&) = default;
};
/// The demand and the fleet that nodes are compared for. It is a row, and lags behind what is known, so that comparisons made before stay
/// good: see Preference::drifted().
struct Mix {
  std::map<PodSize, std::int64_t> pods;
  std::map<Machine, std::int64_t> machines;
  friend auto operator<=>(const Mix&, const Mix&) = default;
};

/// The whole state.
struct Tables {
  Table<NodeName, Node> nodes;
  Table<NodeName, NodeMark> marks;
  Table<NodeName, Observation> observations;
  Table<std::string, Pod> pods;  ///< by uid
  Table<std::string, Storage> storage;
  Table<NodeName, NodeSigns> signs;  ///< that the node's agent gives, as far as they may be written
  Table<WorkloadUid, Workload> workloads;
  Table<AttemptId, Assignment> assignments;
  Table<NodeName, Cut> cuts;
  Table<std::string, mig::Definition> layouts;  ///< by name: what mig-parted's list says
  Table<int, Meta> meta;                        ///< one row, key 0
  Table<int, Mix> mix;                          ///< one row, key 0
  Table<WorkloadUid, Proposal> proposals;
  Table<int, TidyRun> tidy;  ///< one row, key 0

  template <class Fn>
  void each(Fn&& fn) {
    fn(nodes), fn(marks), fn(observations), fn(pods), fn(storage), fn(signs), fn(workloads), fn(assignments), fn(cuts),
        fn(layouts), fn(meta), fn(mix), fn(proposals), fn(tidy);
  }
};

[[nodiscard]] std::string_view name_of(TopologyPolicy policy);
[[nodiscard]] std::string_view name_of(NodeState state);
[[nodiscard]] std::string_view name_of(AssignmentState state);
[[nodiscard]] std::string_view name_of(WorkloadPhase phase);

}  // namespace qm::placement
