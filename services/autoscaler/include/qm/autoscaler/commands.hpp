#pragma once
#include "qm/autoscaler/buffer.hpp"
#include "qm/autoscaler/checkpoint/order.hpp"
#include "qm/autoscaler/gang_launch/reservations.hpp"
#include "qm/autoscaler/nodes/node_details.hpp"
#include "qm/autoscaler/pool.hpp"
#include "qm/autoscaler/provisioning.hpp"
#include "qm/autoscaler/replica_scaling.hpp"
#include "qm/autoscaler/scale_down/rows.hpp"
#include "qm/model/money.hpp"
#include "qm/model/resources.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace qm::autoscaler {

// ---- inputs ----

struct Tick {};
/// All existing NodePools: a missing pool is deleted, and its instances are terminated when they are empty.
struct PoolsApplied {
  std::vector<Pool> pools;
};
/// Placement's demand list, always complete: gangs that have quota and do not fit.
struct DemandUpdated {
  struct Item {
    AttemptId id;
    std::vector<PodSet> pod_sets;
    std::int32_t priority = 0;
    Instant since{};
    std::string ns = {};    ///< if published with it; else the workload's own event has it
    bool runs = false;      ///< pods without a node of a gang that runs: after pending gangs, as many as possible
    std::string type = {};  ///< label workload-type, if published with it; else the workload's own event has it
    /// By pod set: pods that fit running nodes of one zone, so that only the others need new nodes; empty = none.
    std::vector<std::int32_t> room = {};
    std::string room_zone = {};  ///< empty = the nodes have no zone
    friend auto operator<=>(const Item&, const Item&) = default;
  };
  std::vector<Item> items;
};
/// One instance as the cloud describes it.
struct InstanceFact {
  InstanceId id;
  ClaimName claim;   ///< its tag; empty = none
  std::string pool;  ///< its tag; empty if no autoscaler of this cluster launched it
  std::string type, zone;
  Market market = Market::kOnDemand;
  NodeName node;  ///< private DNS name
  Instant launched{};
  std::optional<Instant> stopped;                 ///< shutting-down or terminated
  std::string group;                              ///< the Auto Scaling group that launched it; empty = none
  std::string launch = {};                        ///< its tag: the launch of a gang; empty = launched alone
  std::string image = {}, subnet = {};            ///< ids; empty = not known
  std::vector<std::string> security_groups = {};  ///< ids, sorted
  friend auto operator<=>(const InstanceFact&, const InstanceFact&) = default;
};
/// A complete description of the cloud's instances. A missing instance is considered gone only after some time,
/// because the cloud's responses are delayed, and not while its node is ready.
struct InstancesListed {
  std::vector<InstanceFact> instances;
};
struct SpotPricesUpdated {
  struct Quote {
    std::string type, zone;
    HourlyRate rate;
    Instant from{};
  };
  std::vector<Quote> quotes;
};
struct NodeUpdated {
  NodeName node;
  bool ready = false, cordoned = false, gone = false;
  std::int32_t pods = 0;
  std::optional<Instant> empty_since;
  InstanceId instance;
};
struct AssignmentUpdated {
  AttemptId id;
  bool live = false;            ///< reserved or bound; false = released, expired or short
  std::vector<NodeName> nodes;  ///< distinct, sorted
};
struct WorkloadUpdated {
  WorkloadUid uid;
  std::int32_t attempt = 1;
  bool checkpoints = false;
  bool ended = false;
  std::string ns = {};
  std::string kind = {};
  std::string name = {};
  CheckpointTerms checkpoint = {};
  std::string type = {};  ///< label workload-type
  Duration expected{0};   ///< declared run time; 0 = unknown
};
/// Why a cloud announces the end of an instance.
enum class NoticeKind {
  kSpot,            ///< spot capacity is reclaimed
  kRebalance,       ///< the interruption has become more probable; there is no deadline
  kMaintenance,     ///< the host is stopped, rebooted or retired
  kLifecycle,       ///< an Auto Scaling group terminates it
  kReservationEnd,  ///< its capacity block ends
};
/// The reason of a drain or an order: "SpotInterruption", "RebalanceRecommendation", ...
[[nodiscard]] const char* reason_of(NoticeKind kind);
struct SpotNoticeUpdated {
  NodeName node;
  Instant at{};       ///< when the capacity is reclaimed
  bool over = false;  ///< its node is gone
  NoticeKind kind = NoticeKind::kSpot;
};
/// A notice that names an instance, from the cloud's own events. It may arrive before its instance is known, and again.
struct InstanceNoticeUpdated {
  InstanceId instance;
  NoticeKind kind = NoticeKind::kSpot;
  Instant at{};
};
/// The answer of one node to a checkpoint order.
struct AckUpdated {
  std::string order;
  checkpoint::Answer answer;
};
/// A device or node is faulty and placement drains it; an autoscaled node is terminated when it is empty.
struct HealthUpdated {
  NodeName node;
  bool broken = false;
};
/// What a refused launch says about other launches. The first five are held, and the hold is learned.
enum class Refusal {
  kCapacity,  ///< the offering has no capacity now
  kType,      ///< nor has its type in any zone, or its quota is used up
  kZone,      ///< nor any type in its zone: no free addresses
  kMarket,    ///< nor any offering of its market: a quota of spot instances
  kAccount,   ///< nothing can be launched: a quota of the account
  kOffering,  ///< the offering cannot be launched with these parameters: it is not requested for a fixed time
  kLaunch,    ///< nothing: only the next launch for the same demand is delayed
};
[[nodiscard]] std::string_view name_of(Refusal refusal);
struct LaunchEnded {
  ClaimName claim;
  InstanceId instance;  ///< empty = the launch failed
  std::string error;
  Refusal refusal = Refusal::kCapacity;
  std::string type = {}, zone = {};  ///< of the instance, if the cloud chose among several; empty = as requested
};
/// Offerings of one launch that the cloud tried or would have tried and that did not launch. Another one may have.
struct OfferingsRefused {
  struct Item {
    std::string type, zone;
    Market market = Market::kOnDemand;
    Refusal refusal = Refusal::kCapacity;
  };
  std::vector<Item> offerings;
};
/// The capacity reservations that EC2NodeClasses select, always complete.
struct ReservationsListed {
  struct Item {
    Reservation reservation;
    std::int64_t available = 0;  ///< instances that are not in use
    std::vector<std::string> classes;
  };
  std::vector<Item> reservations;
};
struct TerminateEnded {
  ClaimName claim;
  std::string error;  ///< empty = done
  bool busy = false;  ///< it was not terminated: a workload was bound to it
};
/// An Auto Scaling group refuses the requested size.
struct GroupRefused {
  std::string group;
  std::string error;
  std::int64_t granted = 0;  ///< instances that it has or launches anyway; the newest claims beyond them fail
};

/// One Auto Scaling group as the cloud describes it.
struct ScalingGroup {
  struct Member {
    InstanceId instance;
    std::string lifecycle;            ///< "InService", "Pending:Wait", "Terminating", ...
    bool scale_in_protected = false;  ///< the group may not choose it
    friend auto operator<=>(const Member&, const Member&) = default;
  };
  struct Hook {
    std::string name;
    bool launching = false;  ///< else terminating
    Duration heartbeat{0};   ///< its timeout
    friend auto operator<=>(const Hook&, const Hook&) = default;
  };
  std::int64_t min = 0, max = 0, desired = 0;
  std::int64_t warm = 0;             ///< instances of its warm pool, which are not among the members
  std::optional<Instant> failed_at;  ///< when its latest launch failed
  std::string failure;               ///< with the reason of the cloud
  std::vector<Member> members;       ///< by instance
  std::vector<Hook> hooks;
  [[nodiscard]] const Member* member(const InstanceId& instance) const {
    const auto it = std::ranges::lower_bound(members, instance, {}, &Member::instance);
    return it == members.end() || it->instance != instance ? nullptr : &*it;
  }
  friend auto operator<=>(const ScalingGroup&, const ScalingGroup&) = default;
};
/// The groups of all pools that have one, always complete.
struct GroupsListed {
  std::map<std::string, ScalingGroup> groups;
};

/// Placement requires a checkpoint and then the eviction of an attempt; `node` is the node that it needs.
struct SaveRequested {
  AttemptId id;
  NodeName node;
  std::string reason;
  Instant until{};
  bool over = false;  ///< it is no longer requested, or the eviction is immediate
};

/// The owner of instances for the workloads of each namespace, always complete. Before the first input every namespace
/// is owned.
struct OwnersUpdated {
  struct Item {
    std::string ns;  ///< empty = namespaces that name none
    bool ours = true;
    std::string owner;  ///< "quartermaster", "karpenter", "none", ...
  };
  std::vector<Item> owners;
};

/// All DaemonSets, as pod sets by "namespace/name": a pod of each runs on every node that it accepts.
struct DaemonSetsUpdated {
  std::vector<PodSet> sets;
};

using Command = std::variant<Tick, PoolsApplied, DemandUpdated, InstancesListed, SpotPricesUpdated, NodeUpdated,
                             AssignmentUpdated, WorkloadUpdated, SpotNoticeUpdated, AckUpdated, HealthUpdated,
                             LaunchEnded, TerminateEnded, GroupRefused, OwnersUpdated, SaveRequested, DaemonSetsUpdated,
                             InstanceNoticeUpdated, NodeDetailsUpdated, BuffersApplied, OverlaysApplied, ScalerUpdated,
                             ScalersListed, ReplicasObserved, ReplicasChanged, GroupsListed, OfferingsRefused,
                             NodePodsUpdated, ReservationsListed, ProvisioningApplied>;

}  // namespace qm::autoscaler
