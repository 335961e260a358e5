#pragma once
#include "qm/admission/budgets.hpp"
#include "qm/admission/decisions.hpp"
#include "qm/admission/forecasts.hpp"
#include "qm/admission/jobs_seen.hpp"
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

// ---- commands: what may happen ----

/// Queues, cohorts, flavors and classes as they shall be; objects not named stay as they are.
struct ApplyObjects {
  std::vector<ClusterQueue> cluster_queues;
  std::vector<LocalQueue> local_queues;
  std::vector<Cohort> cohorts;
  std::vector<Flavor> flavors;
  std::vector<PriorityClass> priority_classes;
  std::vector<NamespaceLabels> namespaces;
  std::vector<AdmissionCheck> admission_checks;
  std::vector<std::string> applied;   ///< "ClusterQueue/research", for the answer
  std::vector<std::string> warnings;  ///< of the reader; the engine adds its own
  bool dry_run = false;
};
/// An object that the API server no longer has. What was applied by other ways since stays.
struct ObjectGone {
  std::string kind;  ///< "ClusterQueue", ...
  Namespace ns;
  std::string name;
};
/// All objects of a kind that the API server has; of those read from there, the others are gone.
struct ObjectsSynced {
  std::string kind;
  std::set<std::pair<Namespace, std::string>> names;
};
struct PlacementHeard {
  WorkloadUid uid;
  std::int32_t attempt = 0;
  Answer state = Answer::kNone;
  std::string reservation, reason;
  Instant expires{};
};
struct PromiseHeard {
  WorkloadUid uid;
  std::int32_t attempt = 0;
  Instant ready_by{};
  bool withdrawn = false;
};
struct CheckpointHeard {
  WorkloadUid uid;
  std::int32_t attempt = 0;
  std::string uri;
};
/// Pending workloads whose pods fit the free capacity, by placement: the whole list, in the order in which they are placed.
struct RequeueHeard {
  std::vector<std::pair<WorkloadUid, std::int32_t>> items;  ///< with the attempt that is pending
};
struct EvictionAsked {
  WorkloadUid uid;
  std::int32_t attempt = 0;
  std::string reason, message;
  Instant deadline{};
  std::string resume_uri;
  std::string from;  ///< "placement", "autoscaler"
};
/// A job to create; `job` is the object as it goes to the API server.
struct Submit {
  Namespace ns;
  std::string name, queue, priority_class;
  Team team;
  std::string job;
};
struct Cancel {
  WorkloadUid uid;  ///< or namespace and name
  Namespace ns;
  std::string name, reason;
};
/// What whoever answers an admission check says of a workload that waits for it.
struct AnswerCheck {
  WorkloadUid uid;  ///< or namespace and name
  Namespace ns;
  std::string name, check;
  Verdict verdict = Verdict::kPending;
  std::string message;
  Duration retry_after{0};                           ///< of Retry; zero = as the check's object says
  std::int32_t attempt = 0;                          ///< that it is about; 0 = the present one
  std::map<std::string, PodSetUpdate> updates = {};  ///< of Ready: by pod set
};
/// What the object that stands for a workload says of it being tried.
struct WishHeard {
  WorkloadUid uid;
  bool active = true;
};
/// A workload that is not active is not tried, and gives back what it has.
struct SetActive {
  WorkloadUid uid;  ///< or namespace and name
  Namespace ns;
  std::string name, reason;
  bool active = true;
};
struct IntentOutcome {
  std::string kind, id;
  std::string subject;  ///< uid, or namespace/name for job.create
  std::int32_t attempt = 0;
  bool ok = true;
  bool complete = false, failed = false;  ///< the job was found to have ended
  std::string error;
  bool quiet = false;  ///< job.suspend: it is suspended and has no pod left
};
/// Somebody was told when it will start.
struct EstimateSaid {
  WorkloadUid uid;
  Said said;
};
struct Tick {};
/// Every tree is looked at again, although nothing is known to have changed in it.
struct Reconsider {};

using Command =
    std::variant<ApplyObjects, ObjectGone, ObjectsSynced, JobSeen, JobGone, JobsSynced, PlacementHeard, PromiseHeard,
                 CheckpointHeard, RequeueHeard, EvictionAsked, Submit, Cancel, AnswerCheck, WishHeard, SetActive,
                 IntentOutcome, BudgetGranted, SpentHeard, EstimateSaid, ProposalHeard, Tick, Reconsider>;

// ---- output: what was decided ----

struct Event {
  enum class What : std::uint8_t {
    kQueued,
    kQuotaReserved,
    kAdmitted,
    kEvicting,
    kRequeued,
    kFinished,
    kCancelled,
    kBound,        ///< all of its pods are: placement has said so to everybody, and it is only written down
    kChecked,      ///< nothing is in the way of its start any more: now placement is asked
    kDeactivated,  ///< while it waits
    kActivated,
    kPodsEnded,  ///< fewer of its places are needed, as fewer pods are left to come
    kUpdated,    ///< its object changed, and it is what the object asks for now
    kRejected,   ///< its object asks for what is not supported
    kRepeated,   ///< the question or the order once more
    kForgotten,  ///< long ended: the key ends
  };
  What what = What::kQueued;
  Workload workload;
  Instant at{};
};
[[nodiscard]] std::string_view name_of(Event::What what);

struct Intent {
  std::string kind;  ///< job.create, job.unsuspend, job.suspend, job.delete, event.create
  std::string id;
  std::string key;          ///< namespace/name of the job: its intents are done one after the other
  Workload workload;        ///< as it stood when this was decided
  std::string object;       ///< job.create: the job; event.create: the message
  std::string reason = {};  ///< event.create: of the event; empty = QueueIsCluster
};

struct ApplyReply {
  std::vector<std::string> applied, warnings;
};
struct SubmitReply {
  Namespace ns;
  std::string name;
};
struct CancelReply {
  Phase phase = Phase::kCancelled;
};
/// Of AnswerCheck and SetActive.
struct PhaseReply {
  Phase phase = Phase::kPending;
};
using AnyReply = std::variant<ApplyReply, SubmitReply, CancelReply, PhaseReply>;
struct Reply {
  std::size_t command = 0;  ///< index in the batch
  Result<AnyReply> result;
};

struct Output {
  std::vector<Event> events;
  std::vector<Intent> intents;
  std::vector<Reply> replies;
  std::optional<Instant> wake_at;
};

// ---- answers to "why" ----

struct Cause {
  std::string code, message, resource, remedy;
  std::int64_t requested = 0, available = 0;
};
struct Explanation {
  std::string summary;
  std::vector<Cause> causes;
  Duration waiting{0};
  bool may_have_remedies = false;  ///< it lacks quota or its turn alone: remedies() knows what admits it
};

struct QueueView {
  const ClusterQueue* queue = nullptr;
  std::int64_t pending_ready = 0, pending_backed_off = 0, holding = 0, admitted = 0;
  std::map<std::string, std::int64_t> nominal, used,
      borrowed;                          ///< by resource, over flavors; in a pool nominal is deserved
  std::optional<double> dominant_share;  ///< in a pool: of the resource of which it has most
};

/// Place in a queue: higher priority first, then the longer wait, then the uid.
struct QueueOrder {
  std::int64_t minus_priority = 0;
  Instant since{};
  Uid uid;
  static QueueOrder of(const Workload& w) { return {-std::int64_t{w.spec.priority}, w.waits_since(), w.spec.uid}; }
  friend auto operator<=>(const QueueOrder&, const QueueOrder&) = default;
};

struct Outlook;

/// Decides who may run: queues, quota, preemption, and the handshake with placement.
///
/// A workload goes Pending -> QuotaReserved -> Admitted -> Finished; quota is taken whole or not at all when a flavor
/// for each of its pod sets fits, and placement is asked by the event itself. Reserved admits it; Short gives quota
/// back and makes the next attempt, unless capacity is promised. Evictions are ordered here alone, and an admitted
/// workload gives its quota back only when placement says that its pods are gone, or when its job has ended.
///
/// Where another scheduler binds the pods there is no handshake: quota admits, and an evicted workload gives its quota
/// back when its job is seen suspended without pods, or gone.
///
/// A cluster queue that is deleted admits nothing more; what it admitted runs to its end, and with the last of it the
/// queue is gone. Whoever waits in it waits for a queue of that name.
///
/// Laws     usage of a queue is the sum over its workloads that hold quota; quota is only taken where it is available;
///          the attempt grows with each release and never otherwise; an ended workload never changes phase again;
///          `now` never goes back. Broken laws stop the program.
/// Order    a batch is applied command by command, then timers that are due, then each quota tree in which something
///          changed is scheduled. Nothing depends on hashing.
/// Threads  one.
/// Cost     a change costs the shapes waiting in its quota tree, not the workloads (exact/continuous.hpp).
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
    Table<LocalName, LocalUsage> local_usage;  ///< of those whose cluster queue goes by usage
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
    Table<forecast::Kin, forecast::LifeTable> run_times;  ///< of those that ran, by kin; bounded
    Table<WorkloadUid, Said> said;                        ///< of those that wait; bounded
    Table<std::string, forecast::Correction> corrections;
    Table<WorkloadUid, Judged> judged;
    Table<int, GaveWay> gave_way;  ///< one row, key 0
  };
  [[nodiscard]] const Tables& tables() const { return tables_; }
  [[nodiscard]] const Options& options() const { return options_; }
  /// For loading: fill these, then call loaded().
  [[nodiscard]] Tables& tables_for_load() { return tables_; }
  /// As of an instant, where nothing is to be decided before it is asked; else the next step says how late it is.
  void loaded(Instant now = {});

  // Reads.
  /// Whether the job that this intent makes for a submission has still to show.
  [[nodiscard]] bool awaits(const Namespace& ns, const std::string& name, const std::string& intent) const {
    const auto* row = tables_.submissions.find({ns, name});
    return row != nullptr && row->intent == intent;
  }
  [[nodiscard]] const Workload* find(const WorkloadUid& uid) const { return tables_.workloads.find(uid); }
  /// The workload of that name; the newest where jobs of one name followed each other.
  [[nodiscard]] const Workload* find(const Namespace& ns, const std::string& name) const;
  /// Place among all that wait for its cluster queue, 1 = next; 0 where it does not wait. O(log waiting).
  [[nodiscard]] int position(const Workload& workload) const;
  [[nodiscard]] Explanation explain(const Workload& workload, Instant now) const;
  [[nodiscard]] QueueView view(const ClusterQueue& queue) const;
  /// Its groups with the quota that holds by the calendar, as of the last step.
  [[nodiscard]] std::vector<ResourceGroup> groups(const ClusterQueue& queue) const { return groups_at(queue, now_); }
  /// An admission check of the queue that does not exist or that nobody answers: then it admits nothing.
  [[nodiscard]] std::optional<Cause> check_obstacle(const ClusterQueue& queue) const;
  /// What a pending workload lacks of quota, and single changes with which its quota tree would hold it, whatever is ahead of it in the queue.
  [[nodiscard]] std::vector<Shortfall> shortfalls(const Workload& w) const { return indexes_.decisions.shortfalls(w); }
  [[nodiscard]] std::vector<Unlock> unlocks(const Workload& w) const { return indexes_.decisions.unlocks(w); }
  /// Why the queue admits no workload: Terminating, Stopped, a check, its pool, a cycle of cohorts. Nothing where it is active.
  [[nodiscard]] std::optional<Cause> inactive_reason(const ClusterQueue& queue) const;
  /// The cluster queues that share quota with this one, itself among them.
  [[nodiscard]] std::set<QueueName> tree_of(const QueueName& queue) const;
  /// Where its futures begin (when.hpp), or why it has none.
  [[nodiscard]] tl::expected<Outlook, Cause> outlook(const Workload& w, Instant now) const;
  [[nodiscard]] forecast::Correction correction() const;
  /// A name for the queues that it shares quota with: the cohort at the top, or its own where it is in none.
  [[nodiscard]] std::string root_of(const QueueName& queue) const;
  struct Counters {
    std::uint64_t stale = 0;    ///< messages of older attempts, dropped
    std::uint64_t unknown = 0;  ///< messages about workloads not known, dropped
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }
  /// Compares every derived index with one made afresh, and recounts usage; a difference is a broken law.
  void check_laws() const;

 private:
  void on(const ApplyObjects& c);
  void on(const ObjectGone& c);
  void on(const ObjectsSynced& c);
  void on(const JobSeen& c);
  void on(const JobGone& c);
  void on(const JobsSynced& c);
  void on(const PlacementHeard& c);
  void on(const PromiseHeard& c);
  void on(const CheckpointHeard& c);
  void on(const RequeueHeard& c);
  void on(const EvictionAsked& c);
  void on(const Submit& c);
  void on(const Cancel& c);
  void on(const AnswerCheck& c);
  void on(const WishHeard& c);
  void on(const SetActive& c);
  void on(const IntentOutcome& c);
  void on(const BudgetGranted& c);
  void on(const SpentHeard& c);
  void on(const EstimateSaid& c);
  void on(const ProposalHeard& c);
  void on(const Tick&) {}
  void on(const Reconsider&);

  // Transitions. Each changes one row, says so in an event, and keeps the indexes. Texts come by value: they are often
  // taken from the very row that changes.
  void reserve(const WorkloadUid& uid, const Assignment& assignment);
  void admit(const WorkloadUid& uid);
  void evict(const WorkloadUid& uid, std::string reason, std::string message, Instant deadline,
             Instant requeue_at = {});
  void release(const WorkloadUid& uid, std::string reason, Duration backoff);
  void pods_gone(const WorkloadUid& uid);  ///< of an evicted workload
  void pods_ended(const WorkloadUid& uid, std::int32_t ended);
  void catch_up(const PlacementHeard& c);
  void finish(const WorkloadUid& uid, bool succeeded);
  void cancel_now(const WorkloadUid& uid, std::string reason);
  void job_gone(const WorkloadUid& uid);
  void repeat(const WorkloadUid& uid);
  void forget(const WorkloadUid& uid);

  // Updates of the object (updates.cpp).
  void follow(const JobSeen& c);
  void reject(const WorkloadUid& uid, std::string why);
  void use_spec(const WorkloadUid& uid, const Spec& spec);
  void keep_for_later(const WorkloadUid& uid, const Spec& spec, bool grows = false);
  void settle_next(const WorkloadUid& uid);
  void note_print(const JobSeen& c);
  void refresh_reason(const WorkloadUid& uid);
  template <class Fn>
  void except(const WorkloadUid& uid, Fn&& fn);
  [[nodiscard]] static Cause no_pods();
  void scale(const JobSeen& c);  // growth.cpp, as the next eight
  [[nodiscard]] bool may_grow(const JobSeen& c, const Spec& next) const;
  void ask_growth(const WorkloadUid& uid, std::int32_t pods);
  bool grow(const WorkloadUid& uid);
  bool count_running(const WorkloadUid& uid);
  void grow_in(int tree, bool ahead);
  void report_growth();
  [[nodiscard]] std::vector<Cause> growth_obstacles(const Workload& w) const;
  [[nodiscard]] std::map<std::string, std::int64_t> growth_costs(const Workload& w, bool hard_alone) const;
  void hold_for_growth(const WorkloadUid& uid);
  [[nodiscard]] bool follows_pending(const QueueOrder& order, const QueueName& queue) const;
  void explain_update(const Workload& w, std::vector<Cause>& causes) const;

  void hear_group(const JobSeen& c);  // groups.cpp, as the next two
  template <class Fn>
  void reshape(const WorkloadUid& uid, Fn&& fn);
  [[nodiscard]] std::optional<Flavors> as_held(const Workload& w, const std::vector<PodSet>& sets) const;
  // What is learned for forecasts.
  void learn_run(const Workload& w, forecast::LifeTable::End how);
  void hold_against(const WorkloadUid& uid, bool starts);
  [[nodiscard]] Duration planned_run(const Workload& w) const;
  void forget_said(const WorkloadUid& uid);
  void digest_forecasts(Digest& d) const;
  [[nodiscard]] std::optional<Cause> no_estimate(const Workload& w, Instant now) const;

  void deactivate(const WorkloadUid& uid, std::string reason, std::string message);
  void activate(const WorkloadUid& uid);
  void hear_wish(const WorkloadUid& uid, bool active);
  void hear_pods(const WorkloadUid& uid, bool ready);
  void pods_late(const WorkloadUid& uid);
  void judge_checks(const WorkloadUid& uid, Duration retry_after);
  void check_anew(const WorkloadUid& uid);
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
  [[nodiscard]] std::map<std::string, std::int64_t> asks_of(const Workload& w) const;
  [[nodiscard]] std::int64_t free_of(const BudgetRow& row) const;
  [[nodiscard]] std::string lacking(const std::map<std::string, std::int64_t>& asks) const;
  [[nodiscard]] std::optional<Instant> next_period(const std::string& budget) const;
  [[nodiscard]] std::vector<HoldKey> holds_of(const WorkloadUid& uid, std::int32_t attempt) const;
  template <class Fn>
  void edit_hold(const HoldKey& key, Fn&& fn);
  void drop_hold(const HoldKey& key);
  [[nodiscard]] bool take_holds(const WorkloadUid& uid, const Assignment& assignment);
  void let_go(const Workload& before);
  void extend_holds();
  void review_budgets();
  void wait_for_budget(const WorkloadUid& uid, const std::string& budget);
  void forget_budget(const std::string& name);
  void ask_anew();
  void explain_budget(const Workload& w, Instant now, std::vector<Cause>& causes) const;
  void check_budgets() const;

  // What placement proposes (proposals.cpp).
  struct Objection {
    std::string reason;
    std::vector<WorkloadUid> kept;
  };
  [[nodiscard]] std::optional<Objection> judge(const Workload& w, const ProposalHeard& c) const;
  [[nodiscard]] std::string_view objection_to(const Workload& victim, const Workload& by, Leaving way,
                                              std::map<QueueName, Usage>& leaving) const;
  [[nodiscard]] std::int64_t gave_way_of_late() const;
  [[nodiscard]] Instant kept_for_victims(const Workload& w) const;
  [[nodiscard]] bool waits_for_victims(const Workload& w) const;
  void wait_on(const WorkloadUid& uid);
  void drop_judged();
  void digest_proposals(Digest& d) const;
  void explain_proposal(const Workload& w, std::vector<Cause>& causes) const;

  /// By uid, or by namespace and name; where there is none, the answer is given.
  [[nodiscard]] const Workload* asked_about(const WorkloadUid& uid, const Namespace& ns, const std::string& name);
  template <class Fn>
  void update(const WorkloadUid& uid, Fn&& fn);
  void say(Event::What what, const WorkloadUid& uid);
  void ask(const char* kind, const WorkloadUid& uid, std::string object = {}, std::string reason = {});
  void reply(Result<AnyReply> result);
  [[nodiscard]] const Workload* heard(const WorkloadUid& uid, std::int32_t attempt);

  // Where a queue name leads, and what is in the way.
  struct Lead {
    QueueName queue;
    bool direct = false;
    bool drain = false;
    std::optional<Cause> obstacle;
  };
  [[nodiscard]] Lead lead(const Spec& spec) const;
  [[nodiscard]] bool takes(const ClusterQueue& queue, const Namespace& ns) const;
  [[nodiscard]] Usage held_in(const QueueName& queue) const;
  [[nodiscard]] std::optional<Cause> room_being_made(const Workload& w) const;
  [[nodiscard]] std::optional<std::int32_t> priority_of(const Spec& spec) const;
  [[nodiscard]] Duration minimum_run_of(const Workload& w) const;
  void resolve_all();
  void resolve_of(const std::set<Namespace>& namespaces);
  void resolve(const std::vector<WorkloadUid>& uids);
  void read_anew();
  void remove_queue(const QueueName& name);
  void close_queues();
  void fire_timers();

  // What local queues used (usage.cpp).
  void keep_usage_rows();
  void sample_usage(const LocalName& local);
  void enter_usage(const Workload& w);
  void show_usage(int tree);
  [[nodiscard]] LocalUsage usage_now(const LocalName& local) const;
  [[nodiscard]] std::pair<QueueName, std::int64_t> weight_of(const LocalName& local) const;
  [[nodiscard]] double used_by(const LocalName& local) const;
  [[nodiscard]] std::optional<Cause> turn_of(const Workload& w) const;
  // Quota by the calendar (quota_windows.cpp).
  void turn_windows();
  void drain_windows();
  [[nodiscard]] std::optional<Cause> window_ahead(const ClusterQueue& queue, const std::vector<Shortfall>& shortfalls,
                                                  Instant now) const;

  // Reserved starts and ageing (passing.cpp).
  void grow_older();
  void explain_passing(const Workload& w, Instant now, std::vector<Cause>& causes) const;
  void schedule(int tree);
  void stir(const QueueName& queue);

  /// All that are pending in a queue.
  struct Line {
    Ranked<QueueOrder> all;
    std::int64_t ready = 0;
    friend bool operator==(const Line&, const Line&) = default;
  };
  /// What one that is pending asks of budgets; of the one that it waits for, beside the others.
  struct Asks {
    std::map<std::string, std::int64_t> wants;
    std::optional<std::pair<std::string, std::int64_t>> lacks;
    friend bool operator==(const Asks&, const Asks&) = default;
  };
  using ByAsk = std::map<std::string, std::set<std::pair<std::int64_t, WorkloadUid>>>;
  /// By namespace and name, and then by age.
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
  // Derived from the tables; rebuilt by loaded(), and by undo() where more than rows of workloads changed.
  struct Indexes {
    explicit Indexes(Rules rules) : decisions(rules) {}
    Decisions decisions;
    std::map<QueueName, std::set<Uid>> holders;
    std::map<QueueName, Line> waiting;
    std::optional<Instant> quota_changes;  ///< when a window next opens or closes
    std::vector<QueueName> draining;       ///< the queues that evict what is beyond their quota
    std::set<std::pair<Instant, Uid>> timers;
    std::set<std::pair<Instant, Uid>> gated;  ///< all checks are Ready; in the order in which they got quota
    std::set<QueueOrder> growing;             ///< elastic Jobs that run and lack quota of some pods
    std::set<Uid> starting;                   ///< let through, and not all of their pods are ready
    std::set<std::pair<Instant, Uid>> ended;  ///< kept for a while
    std::set<const Workload*, ByName> names;  ///< rows stay where they are
    std::map<QueueName, Usage> held;          ///< the sum over its holders
    /// By local queue and resource, of those whose cluster queue goes by usage.
    std::map<LocalName, std::map<std::string, std::int64_t>> held_by_local;
    std::map<WorkloadUid, Asks> asked;
    ByAsk wants, lacks;                               ///< by budget: who is tried, and who waits for it
    std::set<std::pair<Instant, HoldKey>> holds_due;  ///< when a hold grows
  };
  /// What the indexes know of a row; of one that is not there, nothing.
  struct Marks {
    bool known = false;
    std::optional<Instant> timer, ended;
    Shared<QueueName> holds;  ///< of which it has quota; empty where it has none
    Shared<Usage> usage;
    std::optional<std::pair<Shared<QueueName>, QueueOrder>> waits;
    bool ready = false;
    std::optional<Instant> gated;
    std::optional<QueueOrder> grows;
    bool starting = false;
    Asks asks;
  };
  [[nodiscard]] Marks marks_of(const Workload& w) const;
  static void move(Indexes& in, const Workload& w, const Marks& from, const Marks& to);
  void build(Indexes& into) const;
  [[nodiscard]] std::optional<Instant> timer_of(const Workload& w) const;

  Options options_;
  Tables tables_;
  Indexes indexes_;
  std::set<int> dirty_;                  ///< trees in which something changed
  std::set<QueueName> touched_;          ///< queues whose usage changed in this step
  std::set<WorkloadUid> asked_to_grow_;  ///< in this step
  bool resolve_needed_ = false;
  bool turned_ = false;             ///< a window has opened or closed since the last commit
  std::set<Namespace> relabelled_;  ///< namespaces whose labels are others now
  Instant submissions_end_{};       ///< no submission is forgotten before
  Counters counters_;
  Instant now_{};
  Instant decided_{};  ///< the step that was committed last
  Output out_;
  std::size_t command_ = 0, reserved_ = 0;  ///< of this step: the command, and workloads that got quota
};

}  // namespace qm::admission
