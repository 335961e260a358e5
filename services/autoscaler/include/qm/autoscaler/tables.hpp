#pragma once
#include "qm/autoscaler/checkpoint/interval.hpp"
#include "qm/autoscaler/checkpoint/order.hpp"
#include "qm/autoscaler/commands.hpp"
#include "qm/autoscaler/consolidate/rows.hpp"
#include "qm/autoscaler/gang_launch/capacity_memory.hpp"
#include "qm/autoscaler/gang_launch/reservations.hpp"
#include "qm/base/table.hpp"

#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler {

enum class ClaimState {
  kRequested,    ///< the intent exists; the cloud may or may not have executed it
  kLaunched,     ///< it has an instance that has not registered yet
  kReady,        ///< its node is ready
  kDraining,     ///< placement was requested to keep new workloads away
  kTerminating,  ///< the terminate intent exists
  kGone,         ///< stopped; kept for a while, as in the cloud
  kFailed,       ///< no capacity, or a parameter was refused; kept visible for a while
};
[[nodiscard]] std::string_view name_of(ClaimState state);

/// One instance, requested or existing: own by a NodeClaim, or found in the cloud (pool empty).
struct Claim {
  std::string pool;  ///< empty = it may not be terminated here
  std::string type, zone;
  Market market = Market::kOnDemand;
  ClaimState state = ClaimState::kRequested;
  InstanceId instance;
  NodeName node;
  Instant requested{}, changed{};  ///< changed: when it entered its state
  std::optional<Instant> launched, stopped;
  std::optional<Instant> missing_since;  ///< missing in the cloud's description since then
  WorkloadUid for_uid;                   ///< the gang that it was launched for
  std::string group;                     ///< its Auto Scaling group, which launches and terminates it; empty = none
  std::string reason;
  /// It was given up without an instance, and the cloud has not confirmed that its group will not launch it.
  bool owed = false;
  Labels labels;                    ///< of its node by the pool's rules, in addition to the pool's own
  std::string launch;               ///< the launch of its gang, which succeeds as a whole; empty = it is launched alone
  bool rolled_back = false;         ///< the launch of its gang failed
  std::optional<Instant> retry_at;  ///< failed: it is not replaced before, and the offering has not refused
  bool interrupted = false;         ///< the cloud reclaims it as spot capacity
  ClaimLifecycle life;
  std::string reservation = {};  ///< the capacity reservation that its instance uses; empty = none
  bool zone_open = false;  ///< without an instance: the cloud may choose another zone and type than the requested ones
  bool counted = false;    ///< in use, in the history of the headroom of its pool
  bool booted = false;     ///< its boot time is in that history
  /// Whether the drain of its node evicts pods. Other drains only keep new pods away until it is empty.
  [[nodiscard]] bool evicts_pods() const;
  friend auto operator<=>(const Claim&, const Claim&) = default;
};

struct NodeRow {
  bool known = false;  ///< placement has published it; else only a notice or a verdict named it
  Instant since{};     ///< of this row
  bool ready = false, cordoned = false, broken = false;
  std::int32_t pods = 0;
  std::optional<Instant> empty_since;
  InstanceId instance;
  bool drain_requested = false;
  bool drain_confirmed = false;  ///< published as cordoned since then
  std::string drain_reason;
  std::optional<Instant> taken_at;        ///< notice with a deadline
  NoticeKind notice = NoticeKind::kSpot;  ///< of taken_at
  std::optional<Instant> risk_since;      ///< recommendation to move the work; no deadline
  /// A cordoned node is published as not ready; its taints name the cause if it is not ready without the cordon.
  [[nodiscard]] bool is_up() const { return ready || cordoned; }
  friend auto operator<=>(const NodeRow&, const NodeRow&) = default;
};

/// An attempt that holds devices.
struct AttemptRow {
  std::vector<NodeName> nodes;
  Instant since{};  ///< it has had nodes since then
  friend auto operator<=>(const AttemptRow&, const AttemptRow&) = default;
};

struct WorkloadRow {
  std::int32_t attempt = 1;
  bool checkpoints = false;
  std::string ns = {};
  std::string kind = {};  ///< of its object; empty = a row of an earlier release
  std::string name = {};  ///< likewise
  CheckpointTerms checkpoint = {};
  std::string type = {};  ///< label workload-type
  Duration expected{0};   ///< declared run time; 0 = unknown
  friend auto operator<=>(const WorkloadRow&, const WorkloadRow&) = default;
};

/// The instances that are being launched for a gang.
struct Plan {
  /// The places of its pods. The next gang uses the rest: placed again in another order, the pods would leave other
  /// gaps.
  struct Place {
    ClaimName claim;
    std::int32_t set = 0;  ///< index of the gang's pod set
    std::int32_t pods = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  std::vector<ClaimName> claims;
  Instant ready_by{};
  std::int32_t promised_attempt = 0;  ///< 0 = there is no promise
  std::int32_t fruitless = 0;         ///< how often its instances started and placement left them idle
  Instant not_before{};               ///< nothing is launched for it before this time
  std::vector<Place> places;          ///< their claims are among `claims`
  std::int32_t refusals = 0;          ///< launches that failed for a reason that says nothing about capacity
  std::string refusal;                ///< of the last one
  friend auto operator<=>(const Plan&, const Plan&) = default;
};

/// Pods of a plan whose node is initialized: they may be bound to it.
struct Nomination {
  WorkloadUid uid;  ///< of the demand; all of its pods are equal
  NodeName node;
  std::int32_t pods = 0;
  friend auto operator<=>(const Nomination&, const Nomination&) = default;
};

/// Placement requires a checkpoint and the eviction of a gang.
struct SaveRow {
  NodeName node;  ///< the node that is needed
  std::string reason;
  Instant until{};
  friend auto operator<=>(const SaveRow&, const SaveRow&) = default;
};

/// A checkpoint order to a gang. After the outcome its eviction is pending, until the attempt has ended.
struct Order {
  AttemptId id;
  NodeName taken;  ///< the node that is taken from the gang; empty = none is, the gang only saves
  checkpoint::GangSave save;
  Instant ordered{};
  std::string outcome;  ///< the name of its closed state; "" = open; "None" = it cannot save and got no order
  std::string why;      ///< of an outcome other than Acked
  StepSave saved;       ///< if Acked
  std::string reason;
  std::string ns = {}, kind = {};  ///< of the workload
  bool evicts = true;
  friend auto operator<=>(const Order&, const Order&) = default;
};

/// The newest acknowledged checkpoint of a workload: its next attempt resumes from it.
struct CheckpointRow {
  checkpoint::Fence fence;
  StepSave saved;
  Instant at{};
  friend auto operator<=>(const CheckpointRow&, const CheckpointRow&) = default;
};

/// Periodic checkpoint orders of an attempt on spot capacity.
struct ScheduleRow {
  Instant last{};  ///< the last order, or the start of the attempt
  Duration interval{0};
  friend auto operator<=>(const ScheduleRow&, const ScheduleRow&) = default;
};

/// A notice that names an instance.
struct InstanceNoticeRow {
  Instant at{}, seen{};
  friend auto operator<=>(const InstanceNoticeRow&, const InstanceNoticeRow&) = default;
};

/// A unit of cloud capacity: each becomes unavailable and available independently. With an empty zone the cloud
/// selects it.
struct Offering {
  std::string type, zone;
  Market market = Market::kOnDemand;
  std::string group;  ///< the Auto Scaling group that would launch it: its bound does not affect other offerings
  std::string reservation = {};  ///< the capacity reservation that pays for it; empty = none
  friend auto operator<=>(const Offering&, const Offering&) = default;
};

/// A capacity reservation, and the classes that select it.
struct ReservedCapacity {
  Reservation reservation;
  std::int64_t others = 0;           ///< its instances that are in use by others than claims
  std::vector<std::string> classes;  ///< EC2NodeClasses, sorted
  friend auto operator<=>(const ReservedCapacity&, const ReservedCapacity&) = default;
};

struct PriceRow {
  HourlyRate rate;
  Instant from{};
  friend auto operator<=>(const PriceRow&, const PriceRow&) = default;
};

struct OwnerRow {
  bool ours = true;
  std::string owner;
  friend auto operator<=>(const OwnerRow&, const OwnerRow&) = default;
};

/// An instance that waits at a lifecycle hook of its group.
struct HookWait {
  bool launching = false;  ///< else terminating
  Instant since{};
  Instant answered{};      ///< the last heartbeat
  bool continued = false;  ///< the instance goes on
  friend auto operator<=>(const HookWait&, const HookWait&) = default;
};

/// The complete state of the engine.
struct Tables {
  Table<std::string, Pool> pools;
  Table<ClaimName, Claim> claims;
  Table<NodeName, NodeRow> nodes;
  Table<AttemptId, AttemptRow> attempts;
  Table<WorkloadUid, WorkloadRow> workloads;
  Table<WorkloadUid, DemandUpdated::Item> demand;
  Table<WorkloadUid, Plan> plans;
  Table<std::string, Order> orders;
  Table<AttemptId, SaveRow> saves;
  Table<std::pair<std::string, std::string>, PriceRow> spot_prices;  ///< (type, zone)
  Table<Offering, Outage> blocked;                                   ///< what refusals taught, and holds
  Table<std::string, std::int64_t> counters;                         ///< "claim" -> last assigned number
  Table<std::string, std::int64_t> group_sizes;                      ///< Auto Scaling group -> last requested size
  Table<std::string, PodSet> daemon_sets;
  Table<InstanceId, Claim> unclaimed;  ///< instances of launches that have not ended, by which claims are matched then
  Table<std::string, ScalingGroup> scaling_groups;  ///< as the cloud describes them
  Table<InstanceId, HookWait> hook_waits;
  Table<std::string, OwnerRow> owners;  ///< of namespaces that name one; others: ""; none = this autoscaler
  Table<WorkloadUid, CheckpointRow> checkpoints;
  Table<AttemptId, ScheduleRow> schedules;
  Table<std::pair<std::string, std::string>, checkpoint::Hazard> hazards;  ///< (type, zone); of deleted claims
  Table<std::pair<InstanceId, NoticeKind>, InstanceNoticeRow> instance_notices;
  Table<NodeName, NodeDetails> node_details;
  Table<std::pair<std::string, std::string>, LaunchFault> launch_faults;  ///< (type, image)
  Table<std::string, DriftBackOff> drift_back_offs;                       ///< by NodePool
  Table<std::string, Buffer> buffers;                                     ///< by "namespace/name"
  Table<std::string, Overlay> overlays;                                   ///< those that apply, by name
  ScaleDownTables scale_down;
  Table<std::string, ReservedCapacity> reservations;  ///< by id
  Table<WorkloadUid, ProvisioningRow> provisioning;   ///< by uid of the ProvisioningRequest
  HeadroomTables headroom;
  Table<NodeName, NodePods> node_pods;  ///< where consolidation or the scale-down of groups needs them
  Table<std::string, ConsolidationRow> consolidations;
  Table<std::string, ConsolidationCheck> consolidation_checks;  ///< one, by "last"
  ReplicaTables replicas;                                       ///< no other table depends on them
};

}  // namespace qm::autoscaler
