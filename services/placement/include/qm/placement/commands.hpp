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

// ---- commands: what may happen to the engine ----

/// The watches start anew (process start): until both lists are complete nothing is decided.
struct WatchStarted {};
struct NodeSeen {
  NodeName node;
  NodeFacts facts;
};
struct NodeGone {
  NodeName node;
};
/// A complete list was taken: every node that is not named here is gone.
struct NodesSynced {
  std::set<NodeName> nodes;
};
struct PodSeen {
  PodFacts pod;
};
struct PodGone {
  std::string uid;
};
struct PodsSynced {
  std::set<std::string> uids;
};
struct StorageSeen {
  std::string key;  ///< as in Tables::storage
  Storage what;
};
struct StorageGone {
  std::string key;
};
/// A complete list of one kind, "claim", "volume", "class" or "limits": all others of it are gone.
struct StorageSynced {
  std::string kind;
  std::set<std::string> keys;
};
struct WorkloadHeard {
  WorkloadSpec spec;
  std::int32_t attempt =
      1;  ///< 0 = admission does not know the workload any more: it ends in the attempt that it is in
  WorkloadPhase phase = WorkloadPhase::kPending;
  Instant quota_reserved{};
  std::string order_reason;
  Instant order_deadline{};
  QuotaStanding standing{};
  std::optional<ProposalAnswer> answer{};  ///< to the newest proposal for it
  bool no_room = false;                    ///< pending, and backs off since placement had no nodes for it
};
struct HealthHeard {
  NodeName node;
  std::optional<HealthMark> mark;  ///< none = nothing is wrong (any more)
};
struct DrainHeard {
  NodeName node;
  std::optional<DrainMark> mark;  ///< none = lifted
};
struct DevicesHeard {
  NodeName node;
  Observation seen;
};
/// What a node's agent has to say of the node.
struct SignsHeard {
  NodeName node;
  std::optional<NodeSigns> signs;  ///< none = nothing any more
};
/// How a bind ended. Other intents need no word back: the watch shows what they did.
struct BindEnded {
  AttemptId attempt;
  std::string pod_uid;
  std::optional<Error> error;
};
/// An intent that failed for good; only counted.
struct IntentFailed {
  std::string kind, message;
};
/// Somebody asks for MIG layouts: all of it is taken, or nothing.
struct OrderLayouts {
  mig::Definitions definitions;            ///< by name; they take the place of those of the same name
  std::map<NodeName, std::string> nodes;   ///< the layout of each
  std::optional<DefaultLayout> otherwise;  ///< of nodes without an order
  std::set<NodeName> withdraw;             ///< whose orders are taken back, as far as they have not begun
  bool dry_run = false;                    ///< answer what would be, keep nothing
  std::vector<std::string> warnings;       ///< of whoever read it, for the answer
};
struct Tick {};

using Command = std::variant<Tick, WatchStarted, NodeSeen, NodeGone, NodesSynced, PodSeen, PodGone, PodsSynced,
                             StorageSeen, StorageGone, StorageSynced, WorkloadHeard, HealthHeard, DrainHeard,
                             DevicesHeard, SignsHeard, OrderLayouts, BindEnded, IntentFailed>;

// ---- output ----

struct AssignmentChanged {
  AttemptId id;
  Assignment state;
  bool forgotten = false;  ///< the key ends
};
struct DemandItem {
  AttemptId id;
  std::vector<PodSet> pod_sets;
  std::int32_t priority = 0;
  Instant since{};
  bool checkpoints = false;
  bool runs = false;  ///< a running gang's: the pods that have no node
};
struct DemandChanged {
  std::vector<DemandItem> items;  ///< the whole list
};
/// A pending workload that was short and whose pods fit the free capacity now.
struct RequeueItem {
  AttemptId id;
  Instant since{};  ///< when its pods were found to fit
};
struct RequeueChanged {
  std::vector<RequeueItem> items;  ///< the whole list: higher priority first, then the earlier instant
};
struct EvictionRequested {
  AttemptId id;
  EvictionAsk ask;
  bool forgotten = false;
};
struct ProposalChanged {
  WorkloadUid uid;  ///< who waits
  Proposal state;
  bool withdrawn = false;  ///< the key ends
};
struct NodeChanged {
  NodeName name;
  Node node;
  bool gone = false;
};
using Event =
    std::variant<AssignmentChanged, DemandChanged, RequeueChanged, EvictionRequested, ProposalChanged, NodeChanged>;

/// A label on specs of workloads that nobody admits: no order will come for them.
inline constexpr const char* kUnadmitted = "quartermaster.dev/unadmitted";

struct BindPod {
  AttemptId attempt;
  std::int32_t index = 0;
  std::string ns, pod, pod_uid;
  NodeName node;
  std::vector<std::int32_t> devices;
  std::string ring;                 ///< its rank in the gang, and the nodes of its neighbours; empty for a pod alone
  std::vector<std::string> claims;  ///< of the pod's namespace, whose volumes are to be made for this node
};
struct DeletePod {
  std::string ns, pod, pod_uid;
  std::int64_t grace_s = -1;  ///< -1 = the pod's own
  Instant evict_until{};      ///< until then disruption budgets are asked; zero = they are not
};
/// Says on the pod's condition PodScheduled why placement does not bind it.
struct RefusePod {
  std::string ns, pod, pod_uid;
  std::string message;
};
struct CordonNode {
  NodeName node;
  std::string causes;  ///< "health", "drain", "drain,health"; empty = uncordon
};
/// Words that the node's object is to have: those of ours that its agent may say.
struct MarkNode {
  NodeName node;
  NodeSigns signs;
};
/// Names the layout of a node for mig-manager, and takes away what it said of the one before.
struct LabelNode {
  NodeName node;
  std::string layout;
};
using Effect = std::variant<BindPod, DeletePod, RefusePod, CordonNode, LabelNode, MarkNode>;
struct Intent {
  std::int64_t number = 0;  ///< unique for ever
  Effect what;
};
/// The answer to a request.
struct LayoutsOrdered {
  std::vector<relayout::Row> orders;  ///< as they stand after the step; of a dry run, as they would
  std::vector<std::string> layouts;   ///< whose meaning was given
  std::vector<std::string> warnings;  ///< what was not taken, and nodes that the default cannot be had on
};
struct Reply {
  std::size_t command = 0;  ///< its place in the batch
  Result<LayoutsOrdered> answer;
};

/// A pod that names a workload and is not one of its pods.
struct ForeignPod {
  std::string pod;  ///< namespace/name
  WorkloadUid named;
  PodOwnership why = PodOwnership::kUnrelated;
};
/// What a step noticed and nobody needs to act on.
struct Notes {
  std::uint64_t stale = 0;          ///< messages and pods of older attempts
  std::uint64_t drift = 0;          ///< devices that the kubelet gave otherwise than planned
  std::uint64_t drift_refused = 0;  ///< observations that give one device twice
  std::uint64_t intents_failed = 0;
  std::vector<ForeignPod> foreign;  ///< pods that name a workload that they are no pods of, each once
  std::uint64_t recut = 0;          ///< layouts ordered for workloads that wait
  std::map<std::string, std::uint64_t>
      proposals;                     ///< by what became of them: Made, Accepted, Stale, or why one was refused
  std::int64_t gave_way_gpu_ms = 0;  ///< work that is lost with those that were accepted
  std::map<std::string, std::uint64_t> moves;  ///< likewise, of proposals that somebody moves
  std::int64_t moved_gpu_ms = 0;
  std::int64_t nodes_won = 0;           ///< that came free by moves
  std::vector<Duration> decided_after;  ///< from quota to each new reservation
  std::vector<Duration> bound_after;    ///< from reservation to the last bind
};

struct Output {
  std::vector<Event> events;
  std::vector<Intent> intents;
  std::vector<Reply> replies;
  std::optional<Instant> wake_at;
  Notes notes;
};

}  // namespace qm::placement
