#pragma once
#include "qm/model/pod_owner.hpp"
#include "qm/placement/model.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace qm::placement {

// ---- commands: inputs of the engine ----

/// The watches have started (process start). No decision is made until both lists are complete.
struct WatchStarted {};
struct NodeUpdated {
  NodeName node;
  NodeFacts facts;
};
struct NodeDeleted {
  NodeName node;
};
/// A complete list was received: a node that is not in it is gone.
struct NodesSynced {
  std::set<NodeName> nodes;
};
struct PodUpdated {
  PodFacts pod;
};
struct PodDeleted {
  std::string uid;
};
struct PodsSynced {
  std::set<std::string> uids;
};
struct StorageUpdated {
  std::string key;  ///< as in Tables::storage
  Storage what;
};
struct StorageDeleted {
  std::string key;
};
/// A complete list of one kind, "claim", "volume", "class" or "limits": an object that is not in it is gone.
struct StorageSynced {
  std::string kind;
  std::set<std::string> keys;
};
struct WorkloadUpdated {
  WorkloadSpec spec;
  /// 0 = admission no longer knows the workload: its current attempt ends.
  std::int32_t attempt = 1;
  WorkloadPhase phase = WorkloadPhase::kPending;
  Instant quota_reserved{};
  std::string order_reason;
  Instant order_deadline{};
  QuotaFacts quota_facts{};
  std::optional<ProposalAnswer> answer{};  ///< to the newest proposal for the workload
  bool no_free_capacity = false;           ///< pending, in back-off because placement had no capacity for it
};
struct HealthUpdated {
  NodeName node;
  std::optional<HealthVerdict> mark;  ///< none = no fault (any more)
};
struct DrainUpdated {
  NodeName node;
  std::optional<DrainRequest> mark;  ///< none = drain withdrawn
};
struct DevicesObserved {
  NodeName node;
  Observation seen;
};
/// Report of a node agent about its node.
struct NodeReportUpdated {
  NodeName node;
  std::optional<NodeReport> report;  ///< none = the report was withdrawn
};
/// Result of a bind. Other intents need no result: the watch shows their effect.
struct BindFinished {
  AttemptId attempt;
  std::string pod_uid;
  std::optional<Error> error;
};
/// An intent that failed permanently. It is only counted.
struct IntentFailed {
  std::string kind, message;
};
/// A user's request for MIG layouts. All of it is accepted, or none.
struct OrderLayouts {
  mig::Definitions definitions;            ///< by name; they replace existing definitions of the same name
  std::map<NodeName, std::string> nodes;   ///< layout by node
  std::optional<DefaultLayout> otherwise;  ///< default layout of nodes without an order
  std::set<NodeName> withdraw;             ///< nodes whose orders are withdrawn if they have not started
  bool dry_run = false;                    ///< reply with the result, but store nothing
  std::vector<std::string> warnings;       ///< from the parser, to be added to the reply
};
struct Tick {};

using Command =
    std::variant<Tick, WatchStarted, NodeUpdated, NodeDeleted, NodesSynced, PodUpdated, PodDeleted, PodsSynced,
                 StorageUpdated, StorageDeleted, StorageSynced, WorkloadUpdated, HealthUpdated, DrainUpdated,
                 DevicesObserved, NodeReportUpdated, OrderLayouts, BindFinished, IntentFailed>;

// ---- output ----

struct AssignmentChanged {
  AttemptId id;
  Assignment state;
  bool forgotten = false;  ///< the key is deleted
};
struct DemandItem {
  AttemptId id;
  std::vector<PodSet> pod_sets;
  std::int32_t priority = 0;
  Instant since{};
  bool checkpoints = false;
  bool runs = false;  ///< a running gang's: the pods that have no node
  /// By pod set: pods that fit running nodes of one zone, so that only the others need new nodes; empty = none.
  std::vector<std::int32_t> room{};
  std::string room_zone{};
};
struct DemandChanged {
  std::vector<DemandItem> items;  ///< the complete list
};
/// A pending workload that was short and whose pods now fit the free capacity.
struct RequeueItem {
  AttemptId id;
  Instant since{};  ///< when its pods were found to fit
};
struct RequeueChanged {
  std::vector<RequeueItem> items;  ///< the complete list: higher priority first, then the earlier instant
};
struct EvictionRequested {
  AttemptId id;
  EvictionRequest ask;
  bool forgotten = false;
};
struct ProposalChanged {
  WorkloadUid uid;  ///< that the proposal is for
  Proposal state;
  bool withdrawn = false;  ///< the key is deleted
};
struct NodeChanged {
  NodeName name;
  Node node;
  bool gone = false;
};
using Event =
    std::variant<AssignmentChanged, DemandChanged, RequeueChanged, EvictionRequested, ProposalChanged, NodeChanged>;

/// Label of workload specs that no admission controller manages: no eviction order will be published for
/// them.
inline constexpr const char* kUnadmitted = "quartermaster.dev/unadmitted";

struct BindPod {
  AttemptId attempt;
  std::int32_t index = 0;
  std::string ns, pod, pod_uid;
  NodeName node;
  std::vector<std::int32_t> devices;
  std::string ring;                 ///< rank in the gang, and the nodes of its ring neighbors; empty for a single pod
  std::vector<std::string> claims;  ///< claims in the pod's namespace; their volumes are provisioned for this node
};
struct DeletePod {
  std::string ns, pod, pod_uid;
  std::int64_t grace_s = -1;  ///< -1 = the pod's own grace period
  Instant evict_until{};      ///< evict until then, within PodDisruptionBudgets; zero = delete at once
};
/// Writes the reason why placement does not bind the pod to its condition PodScheduled.
struct RefusePod {
  std::string ns, pod, pod_uid;
  std::string message;
};
struct CordonNode {
  NodeName node;
  std::string causes;  ///< "health", "drain", "drain,health"; empty = uncordon
};
/// Labels and annotations for the Node object, limited to those that its agent may set.
struct MarkNode {
  NodeName node;
  NodeReport report;
};
/// Sets the layout label of a node for mig-manager and removes the state label of the previous layout.
struct LabelNode {
  NodeName node;
  std::string layout;
};
using Effect = std::variant<BindPod, DeletePod, RefusePod, CordonNode, LabelNode, MarkNode>;
struct Intent {
  std::int64_t number = 0;  ///< never reused
  Effect what;
};
/// Reply to OrderLayouts.
struct LayoutsOrdered {
  std::vector<relayout::Row> orders;  ///< state after the step; of a dry run, the state that would result
  std::vector<std::string> layouts;   ///< names whose definitions were given
  std::vector<std::string> warnings;  ///< what was ignored, and nodes that cannot have the default layout
};
struct Reply {
  std::size_t command = 0;  ///< index in the batch
  Result<LayoutsOrdered> answer;
};

/// A pod that names a workload that does not own it.
struct ForeignPod {
  std::string pod;  ///< namespace/name
  WorkloadUid named;
  PodOwnership why = PodOwnership::kUnrelated;
};
/// Statistics of a step. Nothing depends on them.
struct StepStats {
  std::uint64_t stale = 0;          ///< messages and pods of earlier attempts
  std::uint64_t drift = 0;          ///< devices that the kubelet allocated differently from the plan
  std::uint64_t drift_refused = 0;  ///< observations that list one device twice
  std::uint64_t intents_failed = 0;
  std::vector<ForeignPod> foreign;  ///< pods that name a workload that does not own them, each reported once
  std::uint64_t repartition = 0;    ///< layouts ordered for pending workloads
  /// Proposals by outcome: Made, Accepted, Stale, or the reason of the refusal.
  std::map<std::string, std::uint64_t> proposals;
  std::int64_t preempted_gpu_ms = 0;           ///< work lost by the victims of accepted proposals
  std::map<std::string, std::uint64_t> moves;  ///< the same for proposals that migrate a workload
  std::int64_t moved_gpu_ms = 0;
  std::int64_t nodes_reclaimed = 0;     ///< nodes reclaimed by migrations
  std::vector<Duration> decided_after;  ///< from quota reservation to each new placement
  std::vector<Duration> bound_after;    ///< from placement to the last bind
};

struct Output {
  std::vector<Event> events;
  std::vector<Intent> intents;
  std::vector<Reply> replies;
  std::optional<Instant> wake_at;
  bool pending = true;  ///< pods that request nodes have none
  StepStats notes;
};

}  // namespace qm::placement
