#pragma once
#include "qm/base/time.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace qm::placement {

/// Settings of preemption proposals. A proposal asks admission to evict or migrate victims for a workload
/// that has quota and does not fit. A migrated victim gets a reservation elsewhere first.
struct PreemptionOptions {
  bool on = false;
  bool evicting = true;                        ///< false: only victims that fit elsewhere are proposed
  bool moving = true;                          ///< false: no victim is migrated
  Duration after = std::chrono::seconds(30);   ///< minimum time on the demand list: capacity may be announced
  Duration every = std::chrono::seconds(1);    ///< between two searches
  Duration answer = std::chrono::seconds(30);  ///< after that an unanswered proposal is checked and published again
  Duration again = std::chrono::minutes(10);   ///< a victim that admission refused is not proposed again for this time
  std::int32_t max_publications = 3;           ///< publications of one proposal
  std::size_t max_active = 16;
  std::size_t max_searches = 4;                ///< in one step
  std::int64_t effort = 60'000;                ///< limit of one search, see plan::CostModel
  std::int64_t micro_usd_gpu_second = 3'400;   ///< cost of one GPU-second of lost work
  Duration restart = std::chrono::minutes(2);  ///< time for a victim to restart and reach its former progress
  /// Expected time of an evicted victim in the queue. The time of its GPUs counts as lost.
  Duration requeue = std::chrono::minutes(5);
  /// GPU-seconds lost by victims that can only be migrated, for each GPU of the preemptor.
  std::int64_t max_lost_gpu_seconds = 900;
};

enum class ProposalState : std::uint8_t {
  kNone,        ///< no proposal; the row keeps the history
  kProposed,    ///< published; admission has not answered
  kAccepted,    ///< the victims are being evicted
  kRecovering,  ///< gang recovery, no victims: remaining nodes of a gang that lost a node are held for its next attempt
};

/// Settings of defragmentation: whole nodes are reclaimed by migrating work to other nodes in use. Admission counts
/// each migration in its budget of disruptions; the numbers here only pace the plans.
struct DefragOptions {
  bool on = false;
  /// From a search without result, or the end of a plan, to the next search.
  Duration every = std::chrono::minutes(10);
  std::int64_t hourly = 12;                 ///< workloads that may be asked to migrate in one hour
  std::int64_t least_gpus = 4;              ///< GPUs of the reclaimed nodes, for each workload that migrates
  std::int64_t max_lost_gpu_seconds = 300;  ///< GPU-seconds of lost work, for each GPU of the reclaimed nodes
  /// From the answer that the workload migrates to its placement. After that the target is not held any more.
  Duration settle = std::chrono::minutes(10);
  std::size_t most_nodes = 1000;  ///< a larger fleet is not searched: the search runs inside a step
};

/// Capacity held for one pod of a workload, on devices that its victims may still use.
struct HeldCapacity {
  std::int32_t set = 0, index = 0;  ///< as in Member
  NodeName node;
  std::vector<DeviceRef> devices;
  friend auto operator<=>(const HeldCapacity&, const HeldCapacity&) = default;
};

/// Nodes, and the MIG layout that each will get.
using NodeLayouts = std::map<NodeName, std::string>;

/// Victims of a pending workload, and the refusals of earlier proposals. While a proposal is active,
/// workloads of the same or a lower priority cannot use the capacity that it holds.
struct Proposal {
  struct Victim {
    AttemptId id;
    std::int64_t gpu_ms = 0;  ///< GPU-milliseconds of lost work
    /// Capacity held for the victim's next attempt. Empty: it is evicted, or its own row already holds the
    /// capacity.
    std::vector<HeldCapacity> to;
    friend auto operator<=>(const Victim&, const Victim&) = default;
  };
  ProposalState state = ProposalState::kNone;
  bool move = false;         ///< the workload runs and is its own victim: the capacity is for its next attempt
  std::int64_t number = 0;   ///< never reused
  std::int32_t attempt = 0;  ///< of the workload that the proposal is for
  std::vector<Victim> victims;
  std::vector<HeldCapacity> places;
  NodeLayouts repartitions;         ///< ordered once the victims are gone; the nodes are held until then
  std::int64_t micro_usd = 0;       ///< total cost, see plan::Costs
  std::int64_t lost_micro_usd = 0;  ///< the part of it that is lost work
  Instant made{}, published_at{};
  std::int32_t publish_count = 0;
  // History.
  std::map<WorkloadUid, Instant>
      refused;                ///< victims that admission refused, and until when they are not proposed again
  std::int32_t refusals = 0;  ///< consecutive refusals
  Instant next{};             ///< no search before
  std::string last;           ///< why the last proposal or search failed
  Instant until{};            ///< kReturning: end of the hold
  [[nodiscard]] bool is_active() const { return state != ProposalState::kNone; }
  /// Nodes with held capacity, for the workload and for the victims that migrate.
  [[nodiscard]] std::set<NodeName> nodes() const;
  friend auto operator<=>(const Proposal&, const Proposal&) = default;
};

/// A defragmentation step: nodes that are reclaimed together, and the migrations for it.
struct DefragStep {
  struct Move {
    AttemptId id;
    std::vector<HeldCapacity> places;  ///< of all its pods
    std::int64_t gpu_ms = 0, lost_micro_usd = 0;
    friend auto operator<=>(const Move&, const Move&) = default;
  };
  std::vector<NodeName> nodes;
  std::int64_t gpus = 0;
  std::vector<Move> moves;  ///< the remaining ones; the first may be in progress
  friend auto operator<=>(const DefragStep&, const DefragStep&) = default;
};

/// The defragmentation plan in progress, with the gain and cost known before it started, and the history.
struct DefragRun {
  std::vector<DefragStep> steps;  ///< the remaining ones, in order; empty: no plan in progress
  Instant made{};
  // Planned gain and cost.
  std::int64_t nodes = 0, gpus = 0, moves = 0, gpu_ms = 0, lost_micro_usd = 0;
  std::int64_t reclaimed = 0;              ///< nodes reclaimed so far
  Instant next{};                          ///< no search before
  Instant hour{};                          ///< start of the hour in which migrations are counted
  std::int64_t asked = 0;                  ///< migrations requested in it
  std::map<WorkloadUid, Instant> refused;  ///< refused by admission, and until when they are not asked again
  std::string last;                        ///< how the last plan ended
  [[nodiscard]] bool is_active() const { return !steps.empty(); }
  friend auto operator<=>(const DefragRun&, const DefragRun&) = default;
};

/// Nodes that the current step empties, and the target nodes of its migrations.
[[nodiscard]] std::set<NodeName> held_nodes(const DefragRun& run);

/// Admission's answer to the proposal of this number.
struct ProposalAnswer {
  std::int64_t number = 0;
  bool accepted = false;
  std::string reason;
  std::vector<WorkloadUid> refused;
};

/// Quota facts of a workload that admission publishes for the preemption search.
struct QuotaFacts {
  std::string queue, quota_tree;  ///< queues of one tree share quota
  bool own_queue = false;         ///< may preempt lower priorities in its own queue
  bool in_tree = false;           ///< may preempt in other queues of the tree
  Instant admitted{}, saved{}, min_runtime_until{};
  std::int32_t ended_pods = 0;  ///< of the pods that run at once, those that are not needed any more
  /// Queue position: 1, 2, ... among workloads that got quota at the same instant. 0 = not published.
  std::int32_t queue_position = 0;
  friend auto operator<=>(const QuotaFacts&, const QuotaFacts&) = default;
};

[[nodiscard]] std::string_view name_of(ProposalState state);

}  // namespace qm::placement
