#pragma once
#include "qm/admission/kueue/tree.hpp"
#include "qm/base/shared.hpp"
#include "qm/model/ids.hpp"
#include "qm/topology/assign.hpp"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace qm::admission {
/// Shared by the row of a workload, its index entries, and the scheduling rules.
using Uid = Shared<WorkloadUid>;
}  // namespace qm::admission

namespace qm::admission::kueue {

/// kUnset allows no preemption, but differs from kNever where Kueue compares with that; the API server always sets it.
enum class PreemptPolicy : std::uint8_t { kNever, kUnset, kLowerPriority, kLowerOrNewerEqualPriority, kAny };
[[nodiscard]] PreemptPolicy policy_of(std::string_view word);

/// Rules of a cluster queue for the order and the limits of its decisions.
struct QueueRules {
  bool inactive = false;  ///< admits nothing: stopped, or a referenced object does not exist
  bool by_usage = false;  ///< admissionMode UsageBasedAdmissionFairSharing: the least used local queue goes first
  bool strict = false;    ///< a head that does not fit blocks the queue
  bool backfill = false;  ///< of a strict queue: others may start before its head if they delay no reserved start
  PreemptPolicy within_cluster_queue = PreemptPolicy::kNever;
  PreemptPolicy reclaim_within_cohort = PreemptPolicy::kNever;
  bool preempts_while_borrowing = false;             ///< borrowWithinCohort.policy is LowerPriority
  std::optional<std::int32_t> borrow_max_threshold;  ///< borrowWithinCohort.maxPriorityThreshold
  bool stops_at_borrowing = true;                    ///< whenCanBorrow: MayStopSearch
  bool stops_at_preemption = false;                  ///< whenCanPreempt: MayStopSearch
  bool fungible = true;                              ///< gate FlavorFungibility; else the first flavor of the best mode
  bool prefers_borrowing = true;                     ///< preference: BorrowingOverPreemption

  struct Option {
    Flavor flavor = 0;
    std::vector<Cell> cells;  ///< as `resources` of the group
  };
  struct Group {
    std::vector<Resource> resources;
    std::vector<Option> options;  ///< in the order in which they are tried
    [[nodiscard]] std::optional<std::size_t> index_of(Resource r) const;
  };
  std::vector<Group> groups;
  bool topology_only = false;       ///< each flavor has a topology: all pods are placed, also without a request
  std::vector<Flavor> adrift;       ///< flavors whose topology does not exist
  std::vector<Flavor> delayed;      ///< flavors whose nodes are chosen after quota is reserved, or in another cluster
  bool checked = false;             ///< reserved quota is admitted only after admission checks
  bool ignores_undeclared = false;  ///< requests that no group covers need no flavor; else they are not admitted
  std::optional<Flavor> last_acceptable;  ///< variants of worse flavors migrate no workload (concurrent admission)
  [[nodiscard]] const Group* group_of(Resource r) const;
};

/// Progress of the flavor search, so that the next attempt continues there: pod set -> resource -> the last option
/// tried, -1 if all were tried.
struct Scan {
  std::vector<std::vector<std::pair<Resource, int>>> tried;
  std::int64_t generation = 0;  ///< of the queue, at that time
  std::int64_t cycle = 0;
  int shape = -1;  ///< of the workload at that time; negative if unknown
  [[nodiscard]] int next(std::size_t pod_set, Resource r) const;
  /// Some option was not tried.
  [[nodiscard]] bool unfinished() const;
};

/// A flavor that a pod set cannot use, regardless of quota.
struct Refusal {
  enum class Why : std::uint8_t {
    kNotFound,
    kTaint,
    kAffinity,
    kNotAllowed,
    kNoTopology,         ///< requested, and the flavor has none
    kUnknownTopology,    ///< the topology of the flavor does not exist
    kNoLevel,            ///< the topology has no such level
    kOnlyTopology,       ///< not requested, and the flavor supports only topology
    kFlavorOfOtherSlice  ///< the slice that this workload replaces has another flavor
  };
  Flavor flavor = 0;
  Why why = Why::kNotFound;
  std::string detail;  ///< the taint
  Flavor other = 0;    ///< of the other slice; negative if it has none
};

struct PodSet {
  std::string name;
  std::int32_t count = 1;
  std::optional<std::int32_t> min_count;                ///< may be admitted with fewer, at least this many
  std::vector<std::pair<Resource, std::int64_t>> each;  ///< requests of one pod, by resource
  std::vector<Refusal> refused;                         ///< in the order of their flavors
  std::int32_t group = -1;  ///< the first pod set of those that share flavors with this one; -1 for none
  /// Usage of the pods that these replace (an elastic workload scales by a new slice). Only the difference is
  /// requested, of the same flavors.
  struct Before {
    Resource resource = 0;
    Flavor flavor = 0;
    std::int64_t amount = 0;
  };
  std::vector<Before> before;
  std::int32_t pods_before = 0;  ///< number of replaced pods
  [[nodiscard]] bool replaces() const { return pods_before > 0 || !before.empty(); }
  /// Requests of one pod for its node, which quota may count as other resources; set if it requests a topology.
  std::vector<Resource> node_resources;
  /// How its pods are placed on nodes of a flavor with a topology; `count` and `implied` are set for each
  /// placement. Null if no flavor has one.
  std::shared_ptr<const topology::PodSetRequest> nodes;
  [[nodiscard]] bool has_topology() const { return nodes != nullptr && nodes->topology.has_value(); }
};

/// Pods on one leaf of the topology of a flavor.
struct LeafUse {
  Flavor flavor = 0;
  topology::LeafLoad load;
  bool shared = false;  ///< usage by another flavor, on a host that this flavor has too
};
using LeafUses = std::vector<LeafUse>;

/// The loss of a preemption of the workload, and its minimum run time.
struct Stake {
  std::int64_t gpu_milli = 0;
  std::int64_t saved = 0;       ///< start of the work that would be lost: the last checkpoint, or the start
  std::int64_t restart_us = 0;  ///< time to reach the saved state again
  std::int64_t min_runtime_until = std::numeric_limits<std::int64_t>::min();  ///< end of its minimum run time
  /// Loss of a preemption now, in millionths of a GPU-second.
  [[nodiscard]] std::int64_t loss(std::int64_t now) const;
  friend bool operator==(const Stake&, const Stake&) = default;
};

/// Relations of a workload to others, which few workloads have.
struct Ties {
  /// Uid of the workload of which this is a variant; empty if it is none (concurrent admission).
  std::string parent;
  Flavor flavor = -1;  ///< of the variant
  bool gated = false;  ///< it preempts nothing: a preemption gate is closed
  /// The slice that ends once this one is admitted (elastic workloads); its pods are in PodSet::before.
  int replaces = -1;
};

/// A workload in the model of the scheduling rules.
struct Work {
  int id = -1;
  Node queue = 0;
  int local_queue = 0;
  std::int32_t priority = 0;
  /// Of its priority, by its waiting time. It preempts nothing by the raise, and keeps it while it holds quota.
  std::int64_t raise = 0;
  bool overdue = false;      ///< it waited as long as it may: no workload of its queue passes it
  std::int64_t run_us = 0;   ///< declared run time; 0 = unknown
  std::int64_t created = 0;  ///< order among equals: creation, or eviction where that counts
  Uid uid;
  int shape = 0;  ///< workloads of one shape and queue have equal results
  std::vector<PodSet> pod_sets;
  /// Why it is skipped: the queue does not select its namespace, its requests violate its limits or those of its
  /// namespace, or a check has failed.
  enum class Fault : std::uint8_t { kNone, kNamespace, kRequests, kChecks };
  Fault fault = Fault::kNone;
  bool elastic = false;  ///< scales while it runs

  Amounts usage;              ///< while it holds quota
  LeafUses on_nodes;          ///< usage of nodes, if its flavors have topologies
  std::int64_t reserved = 0;  ///< when it got quota
  bool evicted = false;
  bool admitted = false;            ///< it has quota, and its checks are Ready
  mutable std::size_t held_at = 0;  ///< index among the holders of its queue in a field
  Stake stake;                      ///< instants in microseconds
  double queue_usage = 0;           ///< of its local queue, if admission is ordered by usage
  std::optional<Scan> scan;
  std::shared_ptr<const Ties> ties;  ///< null for most

  /// The priority that orders it; a preemptor needs a higher one.
  [[nodiscard]] std::int64_t effective_priority() const { return priority + raise; }
  /// Queue position, smallest first.
  [[nodiscard]] auto order() const { return std::tuple(-effective_priority(), created, uid); }
};

}  // namespace qm::admission::kueue
