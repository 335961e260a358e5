#pragma once
#include "qm/admission/kueue/forest.hpp"
#include "qm/admission/scheduler/rules.hpp"
#include "qm/admission/scheduler/shortfalls.hpp"
#include "qm/base/lookup.hpp"
#include "scheduler/ages.hpp"
#include "scheduler/patterns.hpp"
#include "scheduler/quota_names.hpp"
#include "scheduler/scheduled.hpp"
#include "scheduler/scheduler.hpp"
#include "scheduler/topology/topology_nodes.hpp"
#include "scheduler/uids.hpp"
#include "scheduler/workload_entry.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qm::admission {

class PoolScheduler;

/// Translates between rows, which use names, and the scheduling rules, which use numbers. Has all quota trees with
/// their pending workloads, claims and holders of quota.
///
/// It is an index of the engine and can be rebuilt from the rows at any time. Continuous decisions follow from the rows
/// alone. Decisions in cycles also depend on the progress of the flavor search and on which workloads are inadmissible.
///
/// Units    CPU and GPU in thousandths, memory in bytes, everything else in units.
/// Threads  one.
/// Cost     put: O(log workloads), plus the cost of the rules for a workload that becomes pending; build: all of it.
class Decisions {
 public:
  explicit Decisions(Rules rules = {});
  ~Decisions();
  Decisions(Decisions&&) noexcept;
  Decisions& operator=(Decisions&&) noexcept;

  /// Removes all workloads and loads the objects. Idle queues admit nothing. Queues below a cycle of cohorts are not
  /// scheduled.
  void build(const std::map<QueueName, ClusterQueue>& queues, const std::map<std::string, Cohort>& cohorts,
             const std::map<FlavorName, Flavor>& flavors, const std::map<LocalName, LocalQueue>& locals,
             const std::set<QueueName>& idle, Instant now, TopologyNodes nodes = {});
  /// Applies aging up to `now` to the pending workloads of queues with aging. Returns the trees with a change.
  /// `now` never decreases.
  std::vector<int> age(Instant now, const std::function<const Workload&(const WorkloadUid&)>& row);
  /// Sets the usage of a local queue for the next decisions of its tree.
  void put_usage(const QueueName& queue, const LocalName& local, const LocalUsage& usage, std::int64_t weight_milli);
  /// The same usage as one weighted number.
  [[nodiscard]] double weigh(const LocalUsage& usage, std::int64_t weight_milli) const;
  /// The local queue of the workload; if it names none, the only one of its namespace.
  [[nodiscard]] LocalName local_of(const Workload& w) const;
  /// Whether any queue, or this queue, admits first from the local queue with the least usage.
  [[nodiscard]] bool any_by_usage() const { return !by_usage_.empty(); }
  [[nodiscard]] bool by_usage(const QueueName& queue) const { return by_usage_.contains(queue); }
  /// Restores the preemptions of which it was the victim. Call it for all workloads before put().
  void recall(const Workload& w);
  /// Updates the state of the workload in its tree: pending, claiming, holding, leaving, or absent.
  void put(const Workload& w);
  /// Updates the usage of a workload that holds quota, after a change in its number of pods.
  void resize(const Workload& w);
  /// Removes a workload that is forgotten.
  void drop(const WorkloadUid& uid);

  /// Whether batches can be undone row by row: for each changed row take_out(), then recall() and put() with the
  /// earlier row, then look_again() for the trees of both. Otherwise build() is required.
  [[nodiscard]] bool reversible() const {
    return !rules_.kueue_cycles && pools_.empty() && by_usage_.empty() && ages_.empty() && !nodes_.used();
  }
  /// Removes the workload from its tree, and its preemptors, until recall() and put().
  void take_out(const Workload& w);
  /// Removes the workload from its tree until put(), because its requests are about to change.
  void reshape(const WorkloadUid& uid);
  /// Discards what the tree concluded from earlier searches.
  void look_again(int tree);

  /// Schedules one tree. Afterwards the state of the tree includes the decisions. With topologies each workload of the
  /// tree is searched again, because other trees may have changed the nodes.
  [[nodiscard]] Scheduled decide(int tree, Instant now);
  /// A workload arrived in or left the tree of the queue: preemptions older than Rules::preemption_cooldown no longer bind.
  void release_old_preemptions(const QueueName& queue, Instant now);
  /// Victims whose set of preemptors changed since the last call, with that set.
  [[nodiscard]] std::vector<std::pair<WorkloadUid, Preemptors>> take_preemptors();

  /// Records a preemption that these rules did not decide; it then binds like one of theirs. Returns false and changes
  /// nothing where may_displace() is false: not one tree, a cycle of preemptions, or a priority that aging has raised.
  bool record_preemption(const WorkloadUid& by, const WorkloadUid& victim, Instant now);
  [[nodiscard]] bool may_displace(const WorkloadUid& by, const WorkloadUid& victim) const;

  /// Number of the quota tree of the queue; queues of one number share quota. -1 if the queue is not scheduled.
  [[nodiscard]] int tree_of(const QueueName& queue) const;
  [[nodiscard]] bool in_cohort_cycle(const QueueName& queue) const { return cohort_cycles_.contains(queue); }
  /// Why a queue has no pool or does not belong in one; empty otherwise.
  [[nodiscard]] std::string_view pool_error(const QueueName& queue) const;
  /// Empty for a queue that is in no pool.
  [[nodiscard]] std::optional<PoolShare> pool_share(const QueueName& queue) const;
  /// Trees in which a waiting time expired between two instants; and the next instant at which a waiting time
  /// expires or aging changes a priority.
  [[nodiscard]] std::vector<int> overdue(Instant after, Instant now) const;
  [[nodiscard]] std::optional<Instant> alarm(Instant after) const;
  /// Quota that the workloads of a queue hold, without claims; empty if its tree has no such quota.
  [[nodiscard]] std::optional<std::int64_t> used(const QueueName& queue, const FlavorResource& at) const;
  /// Whether the queue uses more than its nominal quota and what others lend, because its quota or theirs was lowered.
  [[nodiscard]] bool beyond(const QueueName& queue) const;
  /// The holders of one tree to evict so that none of their queues is beyond its quota. Earlier holders in
  /// `in_order` are chosen first, and no holder that could stay is chosen. `leaving` counts as gone.
  [[nodiscard]] std::vector<const Workload*> surplus(int tree, const std::vector<const Workload*>& leaving,
                                                     const std::vector<const Workload*>& in_order) const;
  /// Whether a pod set cannot use the flavor that is chosen for it, regardless of quota.
  [[nodiscard]] bool refuses(const Spec& spec, const Flavors& flavors) const;
  /// Why a pending workload does not fit; empty if it fits.
  [[nodiscard]] std::vector<QuotaShortfall> shortfalls(const Workload& w) const;
  /// Why a running workload cannot get `more` of the flavors that it has; empty if that is free.
  [[nodiscard]] std::vector<QuotaShortfall> scale_up_shortfalls(const Workload& w, const Usage& more) const;
  /// The changes that would admit a pending workload; empty if it fits.
  [[nodiscard]] std::vector<QuotaRemedy> quota_remedies(const Workload& w) const;
  /// The evicted workloads whose departure makes the workload fit; empty if it would not fit then either.
  [[nodiscard]] std::vector<WorkloadUid> awaited(const Workload& w) const;

  /// The earliest start of each workload, reserved one after the other so that none delays an earlier one. Empty
  /// where the start is more than a week away or never comes.
  [[nodiscard]] std::vector<std::optional<Instant>> reserved(const std::vector<const Workload*>& in_order,
                                                             Instant now) const;
  /// For forecasts (forecast_state.cpp): the tree of the queue without workloads. Empty for a pool, or for a queue
  /// that is not scheduled.
  [[nodiscard]] std::optional<kueue::QuotaState> stage(const QueueName& queue) const;
  /// With the `id` of the caller.
  [[nodiscard]] std::optional<ForecastWorkload> figure(const Workload& w, int id) const;
  [[nodiscard]] bool pooled(const QueueName& queue) const { return pool_of(queue) != nullptr; }

  /// Whether both have the same state: placement of workloads in trees, usage, and preemptions.
  friend bool operator==(const Decisions& a, const Decisions& b);

 private:
  /// Hash and comparison by uid, without a shared copy of it.
  struct HashUid {
    using is_transparent = void;
    std::size_t operator()(const WorkloadUid& uid) const noexcept { return std::hash<WorkloadUid>{}(uid); }
  };
  struct SameUid {
    using is_transparent = void;
    bool operator()(const WorkloadUid& a, const WorkloadUid& b) const noexcept { return a == b; }
  };
  struct Position {
    int tree = -1;
    kueue::Node node = 0;
  };

  // Construction (build.cpp).
  [[nodiscard]] std::vector<kueue::Forest::Offer> offers_of(const std::vector<ResourceGroup>& groups,
                                                            std::vector<kueue::QueueRules::Group>* rules);
  void add_queue(const ClusterQueue& queue, bool idle, Instant now, kueue::Forest::Queue& out);
  [[nodiscard]] std::unique_ptr<Scheduler> make_pool(int tree, const std::map<QueueName, ClusterQueue>& queues,
                                                     const Cohort& cohort, kueue::QuotaState quota);
  [[nodiscard]] kueue::UsageShares shares() const;

  [[nodiscard]] Presence at_of(const Workload& w) const;
  void enter(const Workload& w, WorkloadEntry& entry);
  [[nodiscard]] kueue::Work work_of(const Workload& w, const WorkloadEntry& entry) const;
  [[nodiscard]] kueue::Stake stake_of(const Workload& w) const;
  /// The workload as its tree models it, even if it was never put there; empty if its queue has no tree.
  [[nodiscard]] std::optional<std::pair<kueue::QuotaState*, kueue::Work>> seen(const Workload& w) const;
  [[nodiscard]] Scheduler& scheduler(int tree) const { return *trees_[static_cast<std::size_t>(tree)]; }
  /// The preemptions of a tree; null if there is no tree, or its rules have none.
  [[nodiscard]] kueue::PreemptionGraph* preemptions(int tree) const;
  [[nodiscard]] const Uid& uid_of(int id) const { return *uids_.find(id); }
  int number(const Uid& uid, int bound = -1);
  void weigh(kueue::UsageShares& shares, int id, const LocalUsage& usage, std::int64_t weight_milli) const;
  [[nodiscard]] const PoolScheduler* pool_of(const QueueName& queue) const;
  [[nodiscard]] std::vector<QuotaShortfall> pool_shortfalls(int tree, const PoolScheduler& pool,
                                                            const kueue::Work& work) const;

  Rules rules_;
  mutable QuotaNames names_;   ///< a name gets its number on first use
  mutable Patterns patterns_;  ///< built on first use
  TopologyNodes nodes_;        ///< all trees share the nodes
  std::set<QueueName> by_usage_;
  std::map<Namespace, std::string> only_local_;  ///< by namespace; empty where it has several
  std::vector<std::unique_ptr<Scheduler>> trees_;
  std::map<int, PoolScheduler*> pools_;  ///< the trees that are pools
  std::map<QueueName, Position> queues_;
  std::set<QueueName> cohort_cycles_;
  std::map<QueueName, std::string> pool_errors_;
  Lookup<Uid, WorkloadEntry, HashUid, SameUid> entries_;
  Uids uids_;
  std::map<int, kueue::Stake> stakes_;  ///< of workloads that hold quota
  Ages ages_;
  int next_ = 0;
};

}  // namespace qm::admission
