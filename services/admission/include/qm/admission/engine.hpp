#pragma once
#include "qm/admission/budgets.hpp"
#include "qm/admission/commands.hpp"
#include "qm/admission/decisions.hpp"
#include "qm/admission/forecasts.hpp"
#include "qm/admission/job_updated.hpp"
#include "qm/admission/options.hpp"
#include "qm/admission/proposals.hpp"
#include "qm/admission/workload_table.hpp"
#include "qm/base/digest.hpp"
#include "qm/base/ranked.hpp"
#include "qm/base/result.hpp"
#include "qm/base/table.hpp"
#include "qm/base/time.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace qm::admission {

// ---- explanations ----

struct Cause {
  std::string code, message, resource, remedy;
  std::int64_t requested = 0, available = 0;
};
struct Explanation {
  std::string summary;
  std::vector<Cause> causes;
  Duration waiting{0};
  bool may_have_remedies = false;  ///< only quota or queue order blocks it: remedies() may know what admits it
};

struct QueueView {
  const ClusterQueue* queue = nullptr;
  std::int64_t pending_ready = 0, pending_backed_off = 0, holding = 0, admitted = 0;
  std::map<std::string, std::int64_t> nominal, used,
      borrowed;                          ///< by resource, over flavors; in a pool `nominal` is the deserved amount
  std::optional<double> dominant_share;  ///< in a pool: the largest share over its resources
};

/// Queue position: higher priority first, then the earlier instant, then the uid.
struct QueueOrder {
  std::int64_t minus_priority = 0;
  Instant since{};
  Uid uid;
  static QueueOrder of(const Workload& w) { return {-std::int64_t{w.spec.priority}, w.waits_since(), w.spec.uid}; }
  friend auto operator<=>(const QueueOrder&, const QueueOrder&) = default;
};

struct Outlook;

/// Decides which workloads are admitted: queues, quota, preemption, and the handshake with placement.
///
/// A workload goes Pending -> QuotaReserved -> Admitted -> Finished. Quota is reserved in full or not at all, when a
/// flavor fits each of its pod sets. The QuotaReserved event is the request to placement. Reserved admits the workload.
/// Short releases the quota and starts the next attempt, unless capacity is promised. Only admission orders evictions.
/// An admitted workload releases its quota only when placement reports that its pods are gone, or when its job ends.
///
/// Where another scheduler binds the pods there is no handshake. Reserved quota admits the workload. An evicted
/// workload releases its quota when its job is observed suspended without pods, or deleted.
///
/// A deleted cluster queue admits no more workloads. Workloads that it admitted run to completion; the queue is removed
/// with the last of them. Its pending workloads stay pending until a queue of that name is applied.
///
/// Laws     usage of a queue is the sum over its workloads that hold quota; quota is reserved only where it is
///          available; the attempt increases with each release, and otherwise only to follow placement after lost
///          commits; an ended workload never changes phase; `now` never decreases. A broken law stops the program.
/// Order    the commands of a batch in order, then due timers, then each quota tree with a change is scheduled. Nothing
///          depends on hashing.
/// Threads  one.
/// Cost     a change costs the pending shapes in its quota tree, not the workloads (kueue/continuous.hpp).
class Engine {
 public:
  using Command = admission::Command;
  using Output = admission::Output;

  explicit Engine(Options options = {}) : options_(options), indexes_(options.rules) {}

  Output step(std::span<const Command> batch, Instant now);
  void undo();
  void commit();
  [[nodiscard]] std::uint64_t digest() const;

  // State rows, for the repository.
  struct Tables {
    Table<QueueName, ClusterQueue> cluster_queues;
    Table<std::pair<Namespace, std::string>, LocalQueue> local_queues;
    Table<LocalName, LocalUsage> local_usage;  ///< of cluster queues that order by usage
    Table<std::string, Cohort> cohorts;
    Table<FlavorName, Flavor> flavors;
    Table<std::pair<std::string, bool>, PriorityClass> priority_classes;  ///< (name, workload_only)
    Table<Namespace, NamespaceLabels> namespaces;
    Table<std::string, AdmissionCheck> admission_checks;
    WorkloadTable workloads;
    Table<std::pair<Namespace, std::string>, Submission> submissions;
    Table<std::string, BudgetRow> budgets;
    Table<HoldKey, Hold> holds;
    // For forecasts.
    Table<forecast::JobClass, forecast::LifeTable> run_times;  ///< of finished runs, by job class; bounded
    Table<WorkloadUid, StartEstimate> estimates;               ///< estimates for pending workloads; bounded
    Table<std::string, forecast::Correction> corrections;
    Table<WorkloadUid, ProposalDecision> proposals;
    Table<int, PreemptionBudget> preemption_budget;  ///< one row, key 0
  };
  [[nodiscard]] const Tables& tables() const { return tables_; }
  [[nodiscard]] const Options& options() const { return options_; }
  /// For loading: fill these tables, then call loaded().
  [[nodiscard]] Tables& tables_for_load() { return tables_; }
  /// Builds the indexes, as of `now` where the engine is read before its first step. Otherwise the first step
  /// sets the time.
  void loaded(Instant now = {});

  // Reads.
  /// Whether the job that this intent creates for a submission has not been observed yet.
  [[nodiscard]] bool awaits(const Namespace& ns, const std::string& name, const std::string& intent) const {
    const auto* row = tables_.submissions.find({ns, name});
    return row != nullptr && row->intent == intent;
  }
  [[nodiscard]] const Workload* find(const WorkloadUid& uid) const { return tables_.workloads.find(uid); }
  /// The workload of that name; the newest one where successive jobs have the same name.
  [[nodiscard]] const Workload* find(const Namespace& ns, const std::string& name) const;
  /// Position among all pending workloads of its cluster queue, 1 = next; 0 if it is not pending. O(log pending).
  [[nodiscard]] int position(const Workload& workload) const;
  [[nodiscard]] Explanation explain(const Workload& workload, Instant now) const;
  [[nodiscard]] QueueView view(const ClusterQueue& queue) const;
  /// The resource groups of the queue with the quota of the open quota windows, as of the last step.
  [[nodiscard]] std::vector<ResourceGroup> groups(const ClusterQueue& queue) const { return groups_at(queue, now_); }
  /// A required admission check that does not exist or has no active controller; it makes the queue inactive.
  [[nodiscard]] std::optional<Cause> check_obstacle(const ClusterQueue& queue) const;
  /// The quota that a pending workload lacks, and single changes that would make it fit its quota tree. Both ignore the
  /// workloads ahead of it in the queue.
  [[nodiscard]] std::vector<QuotaShortfall> shortfalls(const Workload& w) const {
    return indexes_.decisions.shortfalls(w);
  }
  [[nodiscard]] std::vector<QuotaRemedy> quota_remedies(const Workload& w) const {
    return indexes_.decisions.quota_remedies(w);
  }
  /// Why the queue admits no workload: Terminating, Stopped, an admission check, its pool, a cycle of cohorts. Empty if
  /// the queue is active.
  [[nodiscard]] std::optional<Cause> inactive_reason(const ClusterQueue& queue) const;
  /// The cluster queues that share quota with this one, including itself.
  [[nodiscard]] std::set<QueueName> tree_of(const QueueName& queue) const;
  /// The start state of its forecasts (when.hpp), or why there are none.
  [[nodiscard]] tl::expected<Outlook, Cause> outlook(const Workload& w, Instant now) const;
  [[nodiscard]] forecast::Correction correction() const;
  /// Name of the quota tree of the queue: its root cohort, or the queue itself if it is in no cohort.
  [[nodiscard]] std::string root_of(const QueueName& queue) const;
  struct Counters {
    std::uint64_t stale = 0;    ///< messages for earlier attempts, dropped
    std::uint64_t unknown = 0;  ///< messages for unknown workloads, dropped
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }
  /// Compares each derived index with a rebuilt one, and recounts usage. A difference is a broken law.
  void check_laws() const;

 private:
  void on(const ApplyObjects& c);
  void on(const ObjectDeleted& c);
  void on(const ObjectsSynced& c);
  void on(const JobUpdated& c);
  void on(const JobDeleted& c);
  void on(const JobsSynced& c);
  void on(const PlacementUpdated& c);
  void on(const PromiseUpdated& c);
  void on(const CheckpointUpdated& c);
  void on(const RequeueListUpdated& c);
  void on(const EvictionRequested& c);
  void on(const Submit& c);
  void on(const Cancel& c);
  void on(const AnswerCheck& c);
  void on(const ActiveUpdated& c);
  void on(const SetActive& c);
  void on(const IntentOutcome& c);
  void on(const BudgetGranted& c);
  void on(const SpendingUpdated& c);
  void on(const EstimatePublished& c);
  void on(const ProposalUpdated& c);
  void on(const Tick&) {}
  void on(const Reconsider&);

  // Transitions. Each changes one row, emits an event, and updates the indexes. Texts are passed by value because they
  // often come from the row that changes.
  void reserve(const WorkloadUid& uid, const Assignment& assignment);
  void admit(const WorkloadUid& uid);
  void evict(const WorkloadUid& uid, std::string reason, std::string message, Instant deadline,
             Instant requeue_at = {});
  void release(const WorkloadUid& uid, std::string reason, Duration backoff);
  void pods_deleted(const WorkloadUid& uid);  ///< of an evicted workload
  void pods_ended(const WorkloadUid& uid, std::int32_t ended);
  void catch_up(const PlacementUpdated& c);
  void finish(const WorkloadUid& uid, bool succeeded);
  void cancel_now(const WorkloadUid& uid, std::string reason);
  void job_deleted(const WorkloadUid& uid);
  void repeat(const WorkloadUid& uid);
  void forget(const WorkloadUid& uid);

  // Updates of the object (updates.cpp).
  void follow(const JobUpdated& c);
  void reject(const WorkloadUid& uid, std::string why);
  void use_spec(const WorkloadUid& uid, const Spec& spec);
  void store_next_spec(const WorkloadUid& uid, const Spec& spec, bool grows = false);
  void refresh_next_spec(const WorkloadUid& uid);
  void note_print(const JobUpdated& c);
  void refresh_reason(const WorkloadUid& uid);
  template <class Fn>
  void except(const WorkloadUid& uid, Fn&& fn);
  [[nodiscard]] static Cause no_pods();
  void scale(const JobUpdated& c);  // scale_up.cpp, with the next eight
  [[nodiscard]] bool may_scale_up(const JobUpdated& c, const Spec& next) const;
  void request_scale_up(const WorkloadUid& uid, std::int32_t pods);
  bool try_scale_up(const WorkloadUid& uid);
  bool count_running(const WorkloadUid& uid);
  void scale_up_tree(int tree, bool ahead);
  void report_scale_up();
  [[nodiscard]] std::vector<Cause> scale_up_obstacles(const Workload& w) const;
  [[nodiscard]] std::map<std::string, std::int64_t> scale_up_costs(const Workload& w, bool hard_alone) const;
  void hold_for_scale_up(const WorkloadUid& uid);
  [[nodiscard]] bool follows_pending(const QueueOrder& order, const QueueName& queue) const;
  void explain_update(const Workload& w, std::vector<Cause>& causes) const;

  void on_group(const JobUpdated& c);  // pod_groups.cpp, with the next two
  template <class Fn>
  void reshape(const WorkloadUid& uid, Fn&& fn);
  [[nodiscard]] std::optional<Flavors> as_held(const Workload& w, const std::vector<PodSet>& sets) const;
  // Observations for forecasts (forecasts.cpp).
  void learn_run(const Workload& w, forecast::LifeTable::End how);
  void hold_against(const WorkloadUid& uid, bool starts);
  [[nodiscard]] Duration planned_run(const Workload& w) const;
  void forget_estimate(const WorkloadUid& uid);
  void digest_forecasts(Digest& d) const;
  [[nodiscard]] std::optional<Cause> no_estimate(const Workload& w, Instant now) const;

  void deactivate(const WorkloadUid& uid, std::string reason, std::string message);
  void activate(const WorkloadUid& uid);
  void on_active(const WorkloadUid& uid, bool active);
  void on_pods_ready(const WorkloadUid& uid, bool ready);
  void pods_not_ready(const WorkloadUid& uid);
  void evaluate_checks(const WorkloadUid& uid, Duration retry_after);
  void refresh_checks(const WorkloadUid& uid);
  void open_gates();
  [[nodiscard]] std::map<std::string, CheckAnswer> checks_of(const Workload& w, const Flavors& flavors) const;
  [[nodiscard]] std::optional<Instant> run_limit_of(const Workload& w) const;
  [[nodiscard]] std::optional<Instant> pods_limit_of(const Workload& w) const;
  [[nodiscard]] std::set<QueueName> idle_queues() const;
  void explain_gate(const Workload& w, std::vector<Cause>& causes) const;
  // Budgets (budgets.cpp).
  [[nodiscard]] static bool pays_for(const BudgetTerms& terms, const Workload& w);
  [[nodiscard]] static Duration expected_run(const BudgetTerms& terms, const Workload& w);
  [[nodiscard]] std::int64_t cost_of(const BudgetTerms& terms, const Workload& w, const Flavors& flavors,
                                     const Counts& counts, Duration run) const;
  [[nodiscard]] std::map<std::string, std::int64_t> budget_requests_of(const Workload& w) const;
  [[nodiscard]] std::int64_t free_of(const BudgetRow& row) const;
  [[nodiscard]] std::string lacking(const std::map<std::string, std::int64_t>& asks) const;
  [[nodiscard]] std::optional<Instant> next_period(const std::string& budget) const;
  [[nodiscard]] std::vector<HoldKey> holds_of(const WorkloadUid& uid, std::int32_t attempt) const;
  template <class Fn>
  void edit_hold(const HoldKey& key, Fn&& fn);
  void drop_hold(const HoldKey& key);
  [[nodiscard]] bool reserve_holds(const WorkloadUid& uid, const Assignment& assignment);
  void release_holds(const Workload& before);
  void extend_holds();
  void review_budgets();
  void wait_for_budget(const WorkloadUid& uid, const std::string& budget);
  void forget_budget(const std::string& name);
  void refresh_requests();
  void explain_budget(const Workload& w, Instant now, std::vector<Cause>& causes) const;
  void check_budgets() const;

  // Proposals of placement (proposals.cpp).
  struct Objection {
    std::string reason;
    std::vector<WorkloadUid> kept;
  };
  [[nodiscard]] std::optional<Objection> check_proposal(const Workload& w, const ProposalUpdated& c) const;
  [[nodiscard]] std::string_view objection_to(const Workload& victim, const Workload& by, Leaving way,
                                              std::map<QueueName, Usage>& leaving) const;
  [[nodiscard]] std::int64_t recent_preemptions() const;
  [[nodiscard]] Instant victims_deadline(const Workload& w) const;
  [[nodiscard]] bool waits_for_victims(const Workload& w) const;
  void extend_victims_deadline(const WorkloadUid& uid);
  void drop_decisions();
  void digest_proposals(Digest& d) const;
  void explain_proposal(const Workload& w, std::vector<Cause>& causes) const;

  /// By uid, or by namespace and name. Null if there is no live workload; the error reply is then set.
  [[nodiscard]] const Workload* find_unfinished(const WorkloadUid& uid, const Namespace& ns, const std::string& name);
  template <class Fn>
  void update(const WorkloadUid& uid, Fn&& fn);
  void publish(Event::What what, const WorkloadUid& uid);
  void add_intent(const char* kind, const WorkloadUid& uid, std::string object = {}, std::string reason = {});
  void reply(Result<AnyReply> result);
  [[nodiscard]] const Workload* current_attempt(const WorkloadUid& uid, std::int32_t attempt);

  // The cluster queue that a queue name resolves to, and the obstacle if it cannot be used.
  struct Lead {
    QueueName queue;
    bool direct = false;
    bool drain = false;
    std::optional<Cause> obstacle;
  };
  [[nodiscard]] Lead lead(const Spec& spec) const;
  [[nodiscard]] bool takes(const ClusterQueue& queue, const Namespace& ns) const;
  [[nodiscard]] Usage held_in(const QueueName& queue) const;
  [[nodiscard]] std::optional<Cause> pending_preemption(const Workload& w) const;
  [[nodiscard]] std::optional<std::int32_t> priority_of(const Spec& spec) const;
  [[nodiscard]] Duration minimum_run_of(const Workload& w) const;
  void resolve_all();
  void resolve_of(const std::set<Namespace>& namespaces);
  void resolve(const std::vector<WorkloadUid>& uids);
  void rebuild();
  void remove_queue(const QueueName& name);
  void close_queues();
  void fire_timers();

  // Usage of local queues (usage.cpp).
  void keep_usage_rows();
  void sample_usage(const LocalName& local);
  void enter_usage(const Workload& w);
  void show_usage(int tree);
  [[nodiscard]] LocalUsage usage_now(const LocalName& local) const;
  [[nodiscard]] std::pair<QueueName, std::int64_t> weight_of(const LocalName& local) const;
  [[nodiscard]] double used_by(const LocalName& local) const;
  [[nodiscard]] std::optional<Cause> usage_obstacle(const Workload& w) const;
  // Quota windows (quota_windows.cpp).
  void apply_windows();
  void drain_windows();
  [[nodiscard]] std::optional<Cause> window_ahead(const ClusterQueue& queue,
                                                  const std::vector<QuotaShortfall>& shortfalls, Instant now) const;

  // Reserved starts and aging (backfill_and_aging.cpp).
  void apply_aging();
  void explain_backfill(const Workload& w, Instant now, std::vector<Cause>& causes) const;
  void schedule(int tree);
  void release_old_preemptions(const QueueName& queue);

  /// All pending workloads of a queue.
  struct Line {
    Ranked<QueueOrder> all;
    std::int64_t ready = 0;
    friend bool operator==(const Line&, const Line&) = default;
  };
  /// The amounts that a pending workload requests of budgets. If it waits for a budget, `lacks` has that one and
  /// `wants` is empty.
  struct BudgetRequests {
    std::map<std::string, std::int64_t> wants;
    std::optional<std::pair<std::string, std::int64_t>> lacks;
    friend bool operator==(const BudgetRequests&, const BudgetRequests&) = default;
  };
  using ByBudget = std::map<std::string, std::set<std::pair<std::int64_t, WorkloadUid>>>;
  /// Lookup key: namespace and name. Rows of one name are in order of age.
  struct Called {
    const Namespace& ns;
    const std::string& name;
    Called(const Namespace& of, const std::string& called) : ns(of), name(called) {}
    Called(const Workload* w) : ns(*w->spec.ns), name(w->spec.name) {}
  };
  struct ByName {
    using is_transparent = void;
    static auto key(const Called& of) { return std::tie(of.ns, of.name); }
    bool operator()(const Workload* a, const Workload* b) const {
      return std::tie(*a->spec.ns, a->spec.name, a->spec.submitted, *a->spec.uid) <
             std::tie(*b->spec.ns, b->spec.name, b->spec.submitted, *b->spec.uid);
    }
    bool operator()(const Workload* a, const Called& b) const { return key(a) < key(b); }
    bool operator()(const Called& a, const Workload* b) const { return key(a) < key(b); }
  };
  // Derived from the tables. Rebuilt by loaded(), and by undo() where more than workload rows changed.
  struct Indexes {
    explicit Indexes(Rules rules) : decisions(rules) {}
    Decisions decisions;
    std::map<QueueName, std::set<Uid>> holders;
    std::map<QueueName, Line> waiting;
    std::optional<Instant> quota_changes;  ///< when a window opens or closes next
    std::vector<QueueName> draining;       ///< queues that evict workloads beyond their quota
    std::set<std::pair<Instant, Uid>> timers;
    std::set<std::pair<Instant, Uid>> gated;  ///< all checks are Ready; in the order in which quota was reserved
    std::set<QueueOrder> scaling_up;          ///< elastic Jobs that run and lack quota for some pods
    std::set<Uid> starting;                   ///< past the gate, and not all of their pods are ready
    std::set<std::pair<Instant, Uid>> ended;  ///< and the job is gone; kept for `retention`
    std::set<const Workload*, ByName> names;  ///< row addresses are stable
    std::map<QueueName, Usage> held;          ///< sum over the holders of each queue
    /// By local queue and resource, where the cluster queue orders by usage.
    std::map<LocalName, std::map<std::string, std::int64_t>> held_by_local;
    std::map<WorkloadUid, BudgetRequests> asked;
    ByBudget wants, lacks;                            ///< by budget: workloads to try, and workloads that wait for it
    std::set<std::pair<Instant, HoldKey>> holds_due;  ///< when a hold has to be extended
  };
  /// The index entries of a row; all empty for a row that does not exist.
  struct Marks {
    bool known = false;
    std::optional<Instant> timer, ended;
    Shared<QueueName> holds;  ///< the queue whose quota it holds; empty if it holds none
    Shared<Usage> usage;
    std::optional<std::pair<Shared<QueueName>, QueueOrder>> waits;
    bool ready = false;
    std::optional<Instant> gated;
    std::optional<QueueOrder> grows;
    bool starting = false;
    BudgetRequests asks;
  };
  [[nodiscard]] Marks marks_of(const Workload& w) const;
  static void move(Indexes& in, const Workload& w, const Marks& from, const Marks& to);
  void build(Indexes& into) const;
  [[nodiscard]] std::optional<Instant> timer_of(const Workload& w) const;

  Options options_;
  Tables tables_;
  Indexes indexes_;
  std::set<int> dirty_;                       ///< quota trees with a change
  std::set<QueueName> touched_;               ///< queues whose usage changed in this step
  std::set<WorkloadUid> scale_up_requested_;  ///< in this step
  bool resolve_needed_ = false;
  bool windows_changed_ = false;    ///< a window has opened or closed since the last commit
  std::set<Namespace> relabelled_;  ///< namespaces with changed labels
  Instant submissions_end_{};       ///< no submission expires before this
  Counters counters_;
  Instant now_{};
  Instant decided_{};  ///< time of the step that was committed last
  Output out_;
  std::size_t command_ = 0, reserved_ = 0;  ///< in this step: current command, number of workloads that got quota
};

}  // namespace qm::admission
