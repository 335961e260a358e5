#pragma once
#include "qm/autoscaler/decision.hpp"
#include "qm/autoscaler/options.hpp"
#include "qm/autoscaler/tables.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace qm::autoscaler {

// ---- outputs ----

struct InstanceEvent {
  ClaimName claim;
  Claim row;
  bool over = false;  ///< the last event about it
};
/// One for each pending gang: a renewal replaces the previous promise.
struct PromiseEvent {
  AttemptId id;
  Instant ready_by{};
  std::vector<ClaimName> claims;
  bool withdrawn = false;
};
struct EvictionEvent {
  AttemptId id;
  NodeName node;
  std::string reason;
  Instant deadline{};
  std::string resume_uri;
  std::int64_t step = 0, checkpoint_number = 0;
  bool over = false;  ///< the attempt has ended: nothing is left to evict
};
/// The order was sent (an open row), or has its outcome.
struct OrderEvent {
  std::string id;
  Order row;
};
/// An answer that was not accepted, because its fence is that of another order or incarnation.
struct StaleAnswer {
  std::string order;
  checkpoint::Answer answer;
};
struct DrainEvent {
  NodeName node;
  std::string reason;
  std::optional<Instant> deadline;
  bool lifted = false;
  Instant asked{};
};
/// The reason of periodic checkpoint orders.
inline constexpr const char* kPeriodic = "Periodic";

struct SpotPriceEvent {
  std::string type, zone;
  PriceRow row;
};

/// Another instance type or zone that serves the pods of a launch as well.
struct LaunchOption {
  std::string type, zone;
  friend auto operator<=>(const LaunchOption&, const LaunchOption&) = default;
};

/// Requests to the cloud. The claim's name is the client token: a repetition launches no further instance.
struct LaunchIntent {
  ClaimName claim;
  Claim row;
  Pool pool;
  std::vector<LaunchOption> others = {};  ///< in the market of the claim, the best first; the cloud may choose one
};
struct TerminateIntent {
  ClaimName claim;
  InstanceId instance;
  Instant asked{};
  std::string group;  ///< the group would replace the instance, unless it is terminated through the group
};
/// The requested size of an Auto Scaling group: a whole number, so a repetition has no further effect.
struct GroupIntent {
  std::string group;
  std::int64_t size = 0;
  std::int64_t number = 0;  ///< number of the request; a retry has a new one
};

/// The answer to a lifecycle hook of a group for one instance.
struct HookIntent {
  std::string group, hook;
  InstanceId instance;
  bool done = false;        ///< the instance continues; else the wait is prolonged by a heartbeat
  std::int64_t number = 0;  ///< of the answer
};

struct Output {
  std::vector<InstanceEvent> instances;
  std::vector<PromiseEvent> promises;
  std::vector<EvictionEvent> evictions;
  std::vector<OrderEvent> orders;
  std::vector<StaleAnswer> stale_answers;
  std::vector<DrainEvent> drains;
  std::vector<SpotPriceEvent> prices;
  std::vector<LaunchIntent> launches;
  std::vector<TerminateIntent> terminations;
  std::vector<GroupIntent> groups;
  ReplicaOutput replicas;
  std::vector<HookIntent> hooks;
  std::vector<ProtectIntent> protections;
  std::optional<Instant> wake_at;
};

/// Whether a caller sees the workloads of the namespace.
using Sees = std::function<bool(const std::string& ns)>;

struct EngineParts;

/// Decides on cloud capacity: launches instances for demand, terminates empty instances, and answers a spot notice
/// with a checkpoint order, an eviction and a replacement.
///
/// Demand   a gang on placement's list gets instances of the cheapest kind that fits it whole: the pools in order of
///          weight, in a pool the offering (type, zone, market) with the lowest price for all its nodes together. Free
///          capacity on instances that are still starting is used first. Instances that placement did
///          not use are not launched again at once: the pause doubles each time. Pods of a running gang that have no
///          node come after pending gangs of their priority. They get instances for as many as limits and capacity
///          allow. Of a gang only the pods without room on running nodes get instances. Single pods are planned together.
/// Gang     several nodes are one launch in one zone: all or none. If a member is refused, the others are terminated
///          within a minute and the next offering is requested for all. An instance that is lost before the gang runs
///          is replaced in the zone of the others; if none can be launched there, the others are terminated as well.
/// Refusal  an offering without capacity is held for as long as its outages were (Outage), 3 min at first. A refusal
///          with an unknown code delays only the demand that it was for.
/// Labels   a label that a pool's requirements leave open gets the value that the gang's pods select, else the lowest
///          allowed. If zones are excluded, only known ones (from a price, an instance or a pool) are requested.
/// Static   a pool with replicas has this number of instances, independent of demand, of the cheapest allowed type. It
///          launches none for gangs. A lost instance is replaced at once, within the limits. Surplus instances are
///          terminated when they are empty, the newest first; within the number an empty instance is not terminated.
/// Promise  dated, one per gang; renewed for its next attempt and while its instances are late, withdrawn when they
///          fail. If the demand disappears it expires by its date, because the gang may have a place then.
/// Cloud    an instance has its claim's name as a tag, so a launch whose response was lost is found again. An instance
///          of this cluster without a claim is adopted: it is used, or terminated as an empty one. Others are
///          reported.
/// Group    of a pool with an Auto Scaling group, claims are not launched one by one: the group's size
///          is set to the number of claims, and its instances are matched to them, oldest first, as they appear. A launch
///          that is given up still counts until the cloud confirms that it fails. An instance that the group terminates on
///          its own is drained, and the replacement is matched as any instance.
/// Notice   the node is drained; gangs that can save get a checkpoint order (every node of the gang), the others are
///          evicted at once; acknowledgements from all nodes, or the deadline, evict them with the step that all have
///          saved. The same applies to a gang for which placement requests a checkpoint and an eviction.
/// Empty    a node of a pool that stays empty for the pool's consolidateAfter is drained. It is terminated only after
///          placement has confirmed that it is cordoned and still empty. A broken one is terminated the same way.
/// Policy   with a profile, the policy table decides which capacity types a workload may use, in their order, by its type,
///          declared run time and checkpoints. Pods that select a capacity type keep it.
/// Disrupt  expired, unhealthy, empty and drifted nodes, by the library `disrupt`. Gangs on them save first. A replaced
///          claim is drained once its replacement is ready.
/// Consol.  nodes in use, by the library `consolidate`: planned, validated 15 s later, then replacements start and are ready,
///          gangs save, and the nodes are drained. It is given up as soon as a node is held or a step fails.
/// Start    with node details a claim is ready once its node is initialized. After the registration time it is replaced
///          once, and the fault of its type and image is remembered.
/// Buffers  whole free nodes for CapacityBuffers, after pending gangs.
/// Owner    for workloads of a namespace with another owner nothing is launched; the explanation has what would be
///          launched. An existing plan is completed. If this autoscaler owns no namespace, empty instances stay.
/// Laws     one claim, one instance; a launch never exceeds a pool's limits; no node with workloads is terminated
///          before its spot deadline or that of its drain; nothing is launched for a gang in parts that do not fit it whole.
/// Bounds   rows end with their subject: claims an hour after the instance, orders with the attempt, plans with
///          the demand. Marks of nodes that placement does not know end after the registration time.
/// Threads  one. Time: `now` does not go back; wake_at is the next time-dependent decision.
/// Cost     a step costs by claims plus demand items x offerings.
class Engine {
 public:
  using Command = autoscaler::Command;
  using Output = autoscaler::Output;

  Engine(std::vector<InstanceType> catalog, Options options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Output step(std::span<const Command> batch, Instant now);
  void undo();
  void commit();
  [[nodiscard]] std::uint64_t digest() const;

  [[nodiscard]] const Tables& tables() const;
  [[nodiscard]] Tables& mutable_tables();  ///< for the repository's restore
  [[nodiscard]] Instant now() const;       ///< of the last step
  [[nodiscard]] const InstanceType* type(const std::string& name) const;
  /// When the pods of a node must have left because the cloud takes it; nullopt = none has to leave now.
  [[nodiscard]] std::optional<Instant> pods_leave_by(const NodeRow& node) const;
  /// One explanation per pending gang: what is launched for it, or why nothing is. Then one for each static pool that
  /// does not have its number of instances.
  /// With `sees`, only of gangs in the namespaces for which it returns true.
  [[nodiscard]] std::vector<std::string> explain(Instant now, std::size_t most = SIZE_MAX, const Sees& sees = {}) const;
  [[nodiscard]] std::string namespace_of(const WorkloadUid& uid) const;  ///< empty if not known
  /// What is launched for a workload on the demand list, or why nothing is: see decision.hpp. At most `listed` candidates;
  /// the counts have all. none = it is not on the list.
  [[nodiscard]] std::optional<CapacityDecision> decision(const WorkloadUid& uid, Instant now,
                                                         std::size_t listed = kCandidatesListed) const;
  /// The lower bound of the price of instances for pods, and for all of the demand without room on running nodes.
  [[nodiscard]] PriceBound bound(const std::vector<PodSet>& sets) const;
  /// Nodes that a voluntary disruption may consider, and all that have a reason, by reason: "empty", "drifted".
  [[nodiscard]] std::map<std::string, std::int64_t> eligible_nodes(Instant now) const;
  [[nodiscard]] const Options& options() const;
  [[nodiscard]] const std::map<std::string, InstanceType>& catalog() const;  ///< by name
  /// The number of instances that each static pool has or gets, without those that are being terminated.
  [[nodiscard]] std::map<std::string, std::int64_t> replicas() const;
  /// The CapacityBuffers, with the pods for which there is capacity, or it starts.
  [[nodiscard]] std::map<std::string, BufferState> buffers() const;
  /// Where the plans have pending pods, once the nodes are initialized: by priority, then by time. None for gangs with
  /// different pods.
  [[nodiscard]] std::vector<Nomination> nominations() const;
  /// Nodes with the taint kNominatingTaint that are ready for pods, apart from it.
  [[nodiscard]] std::set<NodeName> held_nodes() const;
  /// The conditions of each ProvisioningRequest, by uid.
  [[nodiscard]] std::map<WorkloadUid, std::vector<Condition>> provisioning() const;

 private:
  std::unique_ptr<EngineParts> parts_;
};

}  // namespace qm::autoscaler
