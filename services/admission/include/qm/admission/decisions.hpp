#pragma once
#include "qm/admission/kueue/continuous.hpp"
#include "qm/admission/kueue/forest.hpp"
#include "qm/admission/kueue/names.hpp"
#include "qm/admission/kueue/unlocks.hpp"
#include "qm/admission/workload.hpp"
#include "qm/base/lookup.hpp"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace qm::admission {

/// How past usage of local queues is weighed (Kueue's admissionFairSharing).
struct UsageMemory {
  Duration half_life = std::chrono::hours(168);  ///< zero: queues that order by usage order by priority and age
  Duration sampling = std::chrono::minutes(5);
  std::map<std::string, double> weights;  ///< of one unit of a resource; default 1
};

/// The rules by which admission is decided.
struct Rules {
  bool exact = false;         ///< in cycles, as Kueue decides; otherwise continuously
  bool fair_sharing = false;  ///< admission order and choice of victims go by shares
  /// A victim may preempt its preemptor again once this time has passed and then a workload has arrived or ended.
  Duration rest = std::chrono::minutes(10);
  int cheaper_plan_searches = 20;  ///< searches for less expensive victims, for each preemption; not used in cycles
  UsageMemory usage;
  Duration restart = std::chrono::minutes(2);  ///< assumed time for a preempted workload to reach its saved state again
};

/// One reason why a flavor was not assigned, with numbers.
struct QuotaShortfall {
  enum class Kind : std::uint8_t {
    kNotCovered,      ///< the queue has no quota for the resource
    kFlavorMissing,   ///< the queue names a flavor that does not exist
    kTaint,           ///< the pods do not tolerate a taint of the flavor
    kSelector,        ///< the pods select other node labels
    kNeverFits,       ///< more than the queue could hold if nothing else used quota
    kBorrowingLimit,  ///< the cohort has enough, but the borrowing limit of the queue forbids it
    kQuota,           ///< not enough unused quota now
    kCapability,      ///< in a pool: beyond the capability of the queue
    kShare,           ///< in a pool: beyond what the queue deserves by weight now
    kPool,            ///< in a pool: other queues use it
  };
  Kind kind = Kind::kQuota;
  std::string pod_set;
  FlavorName flavor;
  std::string resource;
  std::int64_t requested = 0, available = 0;
  std::string detail;
};

/// A single change that admits a pending workload; evaluated on the current quota trees.
struct QuotaRemedy {
  kueue::QuotaRemedy::Kind kind = kueue::QuotaRemedy::Kind::kQuota;
  Usage more;                      ///< nominal quota of its queue, or borrowing limit
  std::int32_t priority = 0;       ///< the lowest sufficient priority
  std::vector<WorkloadUid> works;  ///< the victims, or the workloads that have to finish
  FlavorName flavor;               ///< would fit without `taint` or `label`
  std::string taint, label;        ///< the obstacle of `flavor`; one of these
  std::string pod_set;             ///< the pod set to reduce
  std::int32_t pods = 0;           ///< the number of pods that fits
};

struct Assignment {
  Shared<Flavors> flavors;
  Shared<Usage> usage;
  Shared<Counts> counts;
};

/// Quota requests of all pods of a workload, by resource; zero requests are omitted.
[[nodiscard]] std::map<std::string, std::int64_t> requests_of(const WorkloadSpec& spec);

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
             const std::set<QueueName>& idle, Instant now);
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
  void shrink(const Workload& w);
  /// Removes a workload that is forgotten.
  void drop(const WorkloadUid& uid);

  /// Whether batches can be undone row by row: for each changed row take_out(), then recall() and put() with the
  /// earlier row, then look_again() for the trees of both. Otherwise build() is required.
  [[nodiscard]] bool reversible() const {
    return !rules_.exact && pools_.empty() && by_usage_.empty() && aging_.empty();
  }
  /// Removes the workload from its tree, and its preemptors, until recall() and put().
  void take_out(const Workload& w);
  /// Removes the workload from its tree until put(), because its requests are about to change.
  void reshape(const WorkloadUid& uid);
  /// Discards what the tree concluded from earlier searches.
  void look_again(int tree);

  struct Scheduled {
    struct Claimed {
      WorkloadUid uid;
      Claim claim;
    };
    struct Displaced {
      WorkloadUid victim, by;
      std::string_view reason;
    };
    struct Admitted {
      WorkloadUid uid;
      Assignment assignment;  ///< empty for a workload with a claim: its row has it
    };
    std::vector<WorkloadUid> unclaimed;  ///< the victims are gone, and the workload still does not fit
    std::vector<Displaced> displaced;
    std::vector<Claimed> claimed;
    std::vector<Admitted> admitted;
  };
  /// Schedules one tree. Afterwards the state of the tree includes the decisions.
  [[nodiscard]] Scheduled decide(int tree, Instant now);
  /// A workload arrived in or left the tree of the queue: preemptions older than Rules::rest no longer bind.
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
  /// What a queue of a pool uses and deserves now, by resource; empty for other queues.
  struct PoolShare {
    std::map<std::string, std::int64_t> used, deserved;
    double dominant_share = 0;  ///< the largest share over the resources of the pool
  };
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
  /// The workload as its tree models it, with the `id` of the caller; and the quota that it claims.
  struct ForecastWorkload {
    kueue::Work work;
    kueue::Amounts claimed;
  };
  [[nodiscard]] std::optional<ForecastWorkload> figure(const Workload& w, int id) const;
  [[nodiscard]] bool pooled(const QueueName& queue) const { return sharing_of(queue) != nullptr; }

  /// Whether both have the same state: placement of workloads in trees, usage, and preemptions.
  friend bool operator==(const Decisions& a, const Decisions& b);

 private:
  class Tree;
  class ContinuousScheduler;
  class CycleScheduler;
  class Sharing;
  struct Pattern {
    int shape = 0;
    std::vector<kueue::PodSet> pod_sets;
    /// Assignment of the last workload of this pattern, by name; the next one usually gets the same.
    struct Made {
      int tree = -1;
      std::vector<kueue::Assignment::Set> sets;
      kueue::Amounts usage;
      Assignment named;
    };
    mutable Made last;
  };
  enum class At : std::uint8_t { kNowhere, kWaiting, kClaiming, kHolding, kLeaving };
  struct WorkloadEntry {
    int id = -1;
    At at = At::kNowhere;
    int tree = -1;
    int bound = -1;  ///< its current or last tree, while that may have preemptions of it
    kueue::Node node = 0;
    std::int32_t priority = 0;
    Instant since{};
    const Pattern* pattern = nullptr;
    std::int64_t raise = 0;  ///< of its priority, by age
    bool overdue = false;
    std::optional<Instant> ages;  ///< when one of both changes; only while pending
  };
  struct HashUid {
    using is_transparent = void;
    std::size_t operator()(const WorkloadUid& uid) const noexcept { return std::hash<WorkloadUid>{}(uid); }
  };
  struct SameUid {
    using is_transparent = void;
    bool operator()(const WorkloadUid& a, const WorkloadUid& b) const noexcept { return a == b; }
  };

  [[nodiscard]] At at_of(const Workload& w) const;
  void enter(const Workload& w, WorkloadEntry& entry);
  [[nodiscard]] const Pattern* pattern_of(const Spec& spec) const;
  void refresh_age(const Workload& w, WorkloadEntry& entry);
  void forget_age(const WorkloadUid& uid, WorkloadEntry& entry);
  [[nodiscard]] std::optional<kueue::Refusal> refusal(const Flavor& flavor, kueue::Flavor id,
                                                      const PodShape& shape) const;
  [[nodiscard]] kueue::Work work_of(const Workload& w, const WorkloadEntry& entry) const;
  [[nodiscard]] kueue::Stake stake_of(const Workload& w) const;
  [[nodiscard]] kueue::Amounts amounts_of(int tree, const Usage& usage) const;
  [[nodiscard]] Usage usage_of(int tree, const kueue::Amounts& amounts) const;
  [[nodiscard]] Assignment assignment_of(int tree, const WorkloadEntry& entry, const kueue::Assignment& made) const;
  /// The workload as its tree models it, even if it was never put there; empty if its queue has no tree.
  [[nodiscard]] std::optional<std::pair<kueue::QuotaState*, kueue::Work>> seen(const Workload& w) const;
  [[nodiscard]] const Uid& uid_of(int id) const { return *uids_.find(id); }
  int number(const Uid& uid, int bound = -1);
  [[nodiscard]] std::unique_ptr<Tree> pool_of(int tree, const std::map<QueueName, ClusterQueue>& queues,
                                              const Cohort& cohort, kueue::QuotaState field);
  [[nodiscard]] const Sharing* sharing_of(const QueueName& queue) const;
  [[nodiscard]] std::vector<QuotaShortfall> pool_shortfalls(int tree, const Sharing& pool,
                                                            const kueue::Work& work) const;

  Rules rules_;
  [[nodiscard]] kueue::UsageShares shares() const;
  void weigh(kueue::UsageShares& shares, int id, const LocalUsage& usage, std::int64_t weight_milli) const;
  [[nodiscard]] int number(const LocalName& local) const;

  kueue::Names flavors_;
  mutable kueue::Names resources_;
  mutable kueue::Names local_queues_;  ///< of queues that order by usage
  std::set<QueueName> by_usage_;
  std::map<Namespace, std::string> only_local_;  ///< by namespace; empty where it has several
  std::map<FlavorName, Flavor> specs_;
  std::vector<std::unique_ptr<Tree>> trees_;
  struct Position {
    int tree = -1;
    kueue::Node node = 0;
  };
  std::map<QueueName, Position> queues_;
  std::set<QueueName> cohort_cycles_;
  std::map<QueueName, std::string> pool_errors_;
  std::vector<int> pools_;                                    ///< trees that are pools
  std::vector<std::map<FlavorResource, kueue::Cell>> cells_;  ///< by tree
  std::vector<std::vector<FlavorResource>> names_;            ///< by tree and cell
  /// By pod sets and whether the kind is Job, which may start with some of its pods. Avoids building the text again.
  mutable std::map<std::pair<Shared<std::vector<PodSet>>, bool>, const Pattern*> known_patterns_;
  mutable std::map<std::string, Pattern> patterns_;  ///< by the text of the pod requests; built on first use
  Lookup<Uid, WorkloadEntry, HashUid, SameUid> entries_;
  /// By number, in pages. No number is used twice, and workloads that arrive together mostly end together.
  class Uids {
   public:
    void put(int id, const Uid& uid);
    void erase(int id);
    [[nodiscard]] const Uid* find(int id) const;

   private:
    static constexpr int kPage = 64;
    struct Page {
      std::array<Uid, kPage> uids;
      std::uint64_t used = 0;  ///< one bit for each
    };
    std::map<int, Page> pages_;
  };
  Uids uids_;
  std::map<int, kueue::Stake> stakes_;  ///< of workloads that hold quota
  std::map<QueueName, forecast::Aging> aging_;
  std::set<std::pair<Instant, WorkloadUid>> ages_;  ///< same instants as in the seats
  Instant aged_{};                                  ///< instant of the ages
  int next_ = 0;
};

}  // namespace qm::admission
