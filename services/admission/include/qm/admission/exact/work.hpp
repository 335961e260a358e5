#pragma once
#include "qm/admission/exact/tree.hpp"
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
/// Many have it: the row of a workload, its places in indexes, and the rules.
using Uid = Shared<WorkloadUid>;
}  // namespace qm::admission

namespace qm::admission::exact {

/// kUnset displaces nobody, and still is not kNever where Kueue asks for that; the API server never leaves it unset.
enum class PreemptPolicy : std::uint8_t { kNever, kUnset, kLowerPriority, kLowerOrNewerEqualPriority, kAny };
[[nodiscard]] PreemptPolicy policy_of(std::string_view word);

/// What a cluster queue says of the order and the limits of its decisions.
struct QueueRules {
  bool inactive = false;  ///< admits nothing: stopped, or something that it names is not there
  bool by_usage = false;  ///< admissionMode UsageBasedAdmissionFairSharing: the local queue that used least goes first
  bool strict = false;    ///< a head that does not fit blocks the queue
  bool backfill = false;  ///< of a strict queue: others may start before it where they move nobody's reserved start
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
  bool topology_only = false;       ///< every flavor names a topology: all pods are placed, asked for or not
  std::vector<Flavor> adrift;       ///< that name a topology which is not there
  std::vector<Flavor> delayed;      ///< whose nodes are chosen only after quota is reserved, or in another cluster
  bool checked = false;             ///< what gets quota is not admitted before others have agreed
  bool ignores_undeclared = false;  ///< what no group has is given without a flavor; else it admits nobody who asks
  std::optional<Flavor> last_acceptable;  ///< variants of worse flavors move nobody (concurrent admission)
  [[nodiscard]] const Group* group_of(Resource r) const;
};

/// How far the search through the flavors came, so that the next attempt goes on there: pod set -> resource -> the last
/// option tried, -1 where all have been.
struct Scan {
  std::vector<std::vector<std::pair<Resource, int>>> tried;
  std::int64_t generation = 0;  ///< of the queue, when it was made
  std::int64_t cycle = 0;
  int shape = -1;  ///< of the workload then; negative where it is not known
  [[nodiscard]] int next(std::size_t pod_set, Resource r) const;
  /// Some option was not tried.
  [[nodiscard]] bool unfinished() const;
};

/// A flavor that a pod set cannot have, whatever the quota.
struct Refusal {
  enum class Why : std::uint8_t {
    kNotFound,
    kTaint,
    kAffinity,
    kNotAllowed,
    kNoTopology,         ///< it is asked for, and the flavor has none
    kUnknownTopology,    ///< it has one that is not there
    kNoLevel,            ///< it has no such level
    kOnlyTopology,       ///< it is not asked for, and the flavor has nothing else
    kFlavorOfOtherSlice  ///< what this workload takes the place of has another
  };
  Flavor flavor = 0;
  Why why = Why::kNotFound;
  std::string detail;  ///< the taint
  Flavor other = 0;    ///< that of the other slice; negative where it has none
};

struct PodSet {
  std::string name;
  std::int32_t count = 1;
  std::optional<std::int32_t> min_count;                ///< may be admitted with fewer
  std::vector<std::pair<Resource, std::int64_t>> each;  ///< requests of one pod, by resource
  std::vector<Refusal> refused;                         ///< in the order of their flavors
  std::int32_t group = -1;  ///< the first pod set of those that have their flavors in common with this one; -1 for none
  /// What the pods have that these take the place of (an elastic workload grows by a new one): only the rest is asked for,
  /// and of the same flavors.
  struct Before {
    Resource resource = 0;
    Flavor flavor = 0;
    std::int64_t amount = 0;
  };
  std::vector<Before> before;
  std::int32_t pods_before = 0;  ///< how many these are
  [[nodiscard]] bool replaces() const { return pods_before > 0 || !before.empty(); }
  /// What one pod requests of its node, which quota may count as other resources; filled in where it asks for a topology.
  std::vector<Resource> node_resources;
  /// How its pods are placed on nodes of a flavor with a topology; count and `implied` are filled in by who places. Null
  /// where no flavor has one.
  std::shared_ptr<const topology::PodSetRequest> nodes;
  [[nodiscard]] bool asks_topology() const { return nodes != nullptr && nodes->topology.has_value(); }
};

/// Pods on one leaf of a flavor's topology.
struct LeafUse {
  Flavor flavor = 0;
  topology::LeafLoad load;
  bool shared = false;  ///< they are another flavor's, on a host that this one has too
};
using LeafUses = std::vector<LeafUse>;

/// What is lost when a workload is displaced, and how long it may not be.
struct Stake {
  std::int64_t gpu_milli = 0;
  std::int64_t saved = 0;       ///< work done since this instant is lost: of the last checkpoint, or of the start
  std::int64_t restart_us = 0;  ///< until it is again where it was saved
  std::int64_t kept_until = std::numeric_limits<std::int64_t>::min();  ///< it has run for its minimum run time
  /// What displacing it now loses, in millionths of a GPU-second.
  [[nodiscard]] std::int64_t loss(std::int64_t now) const;
  friend bool operator==(const Stake&, const Stake&) = default;
};

/// What binds few workloads to others.
struct Ties {
  std::string
      parent;  ///< uid of the workload of which this is a variant; empty where it is none (concurrent admission)
  Flavor flavor = -1;  ///< the variant's
  bool gated = false;  ///< it displaces nobody: a gate is closed
  int replaces =
      -1;  ///< the slice that ends once this one is admitted (elastic workloads); its pods are in PodSet::before
};

/// A workload as the rules see it.
struct Work {
  int id = -1;
  Node queue = 0;
  int local_queue = 0;
  std::int32_t priority = 0;
  std::int64_t raise =
      0;  ///< of its priority for having waited: it displaces nobody for that, and keeps it while it holds quota
  bool overdue = false;      ///< it has waited as long as it may: nobody of its queue passes it
  std::int64_t run_us = 0;   ///< how long it is said to run; 0 = not known
  std::int64_t created = 0;  ///< place among its like: creation, or eviction where that counts
  Uid uid;
  int shape = 0;  ///< works of one shape and queue fare alike
  std::vector<PodSet> pod_sets;
  /// Why it is passed over: the queue does not take its namespace, or its requests are against its own limits or its
  /// namespace's, or a check has failed.
  enum class Fault : std::uint8_t { kNone, kNamespace, kRequests, kChecks };
  Fault fault = Fault::kNone;
  bool elastic = false;  ///< grows and shrinks while it runs

  Amounts usage;              ///< while it holds quota
  LeafUses on_nodes;          ///< the same of the nodes, where its flavors have topologies
  std::int64_t reserved = 0;  ///< when it got it
  bool evicted = false;
  bool admitted = false;            ///< beyond its quota it has what its queue's checks ask for
  mutable std::size_t held_at = 0;  ///< where a field has it among the holders of its queue, to find it again
  Stake stake;                      ///< instants in microseconds
  double queue_usage = 0;           ///< of its local queue, where admission is shared out by usage
  std::optional<Scan> scan;
  std::shared_ptr<const Ties> ties;  ///< null for most

  /// What its place goes by, and above what a priority has to be to displace it.
  [[nodiscard]] std::int64_t standing() const { return priority + raise; }
  /// Place in a queue, smallest first.
  [[nodiscard]] auto order() const { return std::tuple(-standing(), created, uid); }
};

}  // namespace qm::admission::exact
