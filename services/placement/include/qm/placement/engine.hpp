#pragma once
#include "qm/placement/asked.hpp"
#include "qm/placement/commands.hpp"
#include "qm/placement/obstacles.hpp"
#include "qm/placement/outline.hpp"
#include "qm/placement/policy.hpp"
#include "qm/placement/preference.hpp"
#include "qm/placement/rules/rule_book.hpp"
#include "qm/placement/shortlists.hpp"
#include "qm/placement/tidy.hpp"
#include "qm/placement/together.hpp"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace qm::placement {

struct Home;
/// Constraints of a placement in addition to free capacity; null = none.
struct Where {
  const Home* home = nullptr;  ///< gang recovery: the former nodes of the gang
  const Part* part = nullptr;  ///< only nodes of this part of the fleet
};

struct Options {
  Duration hold = std::chrono::minutes(5);  ///< time for the pods of a reservation to be created
  /// A member without a running pod is lost after its node has not been ready for this time.
  Duration node_timeout = std::chrono::seconds(60);
  Duration keep_ended = std::chrono::minutes(10);     ///< an ended assignment stays readable for this time
  Duration health_grace = std::chrono::seconds(120);  ///< eviction deadline for a faulty device
  /// Pause before capacity that the first pending workloads did not use is offered to the next ones.
  Duration requeue_pause = std::chrono::milliseconds(250);
  Duration returning{};                  ///< a gang that lost a node keeps its other nodes for this time; 0 = never
  std::string policy = "quartermaster";  ///< node scoring: one of pack::policy_names()
  TopologyLevels topology{std::string(words::kZone), "cloud.provider.com/topology-block",
                          "cloud.provider.com/topology-rack"};  ///< node labels, the widest level first
  std::vector<relayout::Weekly> layout_windows;  ///< when pods may be evicted for a MIG layout; none = only idle GPUs
  relayout::Limits layout_limits;
  Proposing proposing;
  Tidying tidying;
  Recutting recutting;
  /// Workload types (label workload-type) that do not share nodes with one another: up to 32.
  std::vector<std::string> apart{"training", "inference"};
  std::map<std::string, GpuPool> pools{{"training", GpuPool::kWhole},
                                       {"inference", GpuPool::kSlices}};  ///< by workload type
};

/// Decides where gangs run: which nodes, which devices, and when these are released.
///
/// The engine stores observations (nodes, pods, workloads, verdicts) as received. After each batch it
/// evaluates everything affected from the tables alone. The order in which observations of different sources
/// arrive therefore does not matter.
///
/// Laws     no device is planned above 1000 milli; a gang that holds devices is complete; every member fits
///          its node when it is reserved; a device is released only when its pod is gone or has ended, or its
///          node is lost; an attempt is Released once, and only when it has no pod left. Asserted for
///          everything that a step changed; audit() checks all of it.
/// Time     `now` must not decrease. All timers are in wake_at.
/// Threads  one.
/// Cost     a placement reads the nodes that changed since the last request for such pods. With rules, claims
///          or a topology, and where nothing fits, it reads all nodes. Otherwise the cost of a step is
///          proportional to what it changes.
class Engine {
 public:
  using Command = placement::Command;
  using Output = placement::Output;

  explicit Engine(Options options = {});
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  Output step(std::span<const Command> batch, Instant now);
  void undo();
  void commit();
  [[nodiscard]] std::uint64_t digest() const;

  [[nodiscard]] const Tables& tables() const { return tables_; }
  /// For the repository: fill the tables with Table::restore, then call rebuild().
  [[nodiscard]] Tables& mutable_tables() { return tables_; }
  void rebuild();

  /// The placement request for these pods. For a known workload it includes its type, its GPU pool and the
  /// rules of its pods.
  [[nodiscard]] Asked question(const std::vector<PodSet>& pod_sets, const WorkloadUid& uid = {}) const;
  /// The placement that would be decided now; nothing is stored.
  [[nodiscard]] Placed dry_run(const std::vector<PodSet>& pod_sets, const WorkloadUid& uid = {}) const;
  [[nodiscard]] Placed dry_run(const Asked& asked, const WorkloadUid& uid = {}) const;
  /// Bandwidth of a placed or planned gang, and of alternative nodes that would fit it now: nearness.hpp.
  [[nodiscard]] std::vector<std::string> compared(const std::vector<PodSet>& pod_sets,
                                                  const std::vector<Member>& members) const;
  /// Constraints that prevent a placement of these pods now, and remedies; empty if they fit.
  [[nodiscard]] Obstacles obstacles(const std::vector<PodSet>& pod_sets, const WorkloadUid& uid = {}) const;
  /// The same on a fleet without pods: if not empty, the end of other pods does not help. Only shapes and
  /// topology of the pods count: rules about other pods, volumes and MIG layouts may change meanwhile. Empty
  /// for pods with MIG profiles.
  [[nodiscard]] Obstacles obstacles_without_pods(const std::vector<PodSet>& pod_sets) const;
  [[nodiscard]] std::vector<DemandItem> demand() const;
  /// Pending workloads whose pods fit. An item leaves the list when its attempt ends or it gets quota.
  [[nodiscard]] std::vector<RequeueItem> requeue() const;
  /// Nodes and pods as numbers, for calculations outside the engine. One pass over nodes, members and pending
  /// workloads.
  [[nodiscard]] Outline outline() const;
  /// Nodes and migration candidates, to compute a defragmentation plan outside the engine. Capacity held for
  /// `movers` counts as free. One pass over nodes and members.
  [[nodiscard]] TidyQuestion tidy_question(const std::set<WorkloadUid>& movers = {}) const;
  [[nodiscard]] bool synced() const { return meta().nodes_synced && meta().pods_synced; }
  struct DeviceUse {
    std::int32_t used_milli = 0;
    bool healthy = true;
    bool parted = false;            ///< a MIG instance of it is in use: it is not allocated as a whole
    std::vector<std::string> pods;  ///< "namespace/pod", or the attempt if no pod is known
  };
  [[nodiscard]] std::vector<DeviceUse> devices_of(const NodeName& node) const;
  /// MIG layout of the node's GPUs: by its label if the node advertises what that layout has, else by what it
  /// advertises. None if the GPUs cannot be partitioned or their number is unknown.
  [[nodiscard]] std::optional<mig::NodeLayout> layout_of(const NodeName& node) const;
  struct Planned {
    mig::Capacity capacity;  ///< that the node must advertise with its label nvidia.com/mig.config
    std::string unknown;     ///< why it cannot be determined
  };
  /// None if the node has no such label.
  [[nodiscard]] std::optional<Planned> planned_of(const NodeName& node) const;
  /// "MIG_CAPACITY_MISMATCH: ..." if the node has long advertised other devices than its labeled layout has;
  /// else empty.
  [[nodiscard]] std::string layout_finding(const NodeName& node) const;
  /// MIG repartition for a workload that needs instances: nodes and progress, or why there is none. Empty if
  /// the workload needs no instances, has no quota, or repartitioning is off.
  [[nodiscard]] std::string recut_words(const WorkloadUid& uid) const;
  /// Idle MIG instances by GPU and resource: those of the GPU's layout without those that pods hold.
  /// Instances of the attempts in `gone` count as idle.
  [[nodiscard]] Room::Instances idle_instances(const NodeName& node, const std::set<AttemptId>& gone = {}) const;
  /// Checks every law over the whole state, and the derived indexes against the tables. Aborts on a
  /// violation.
  void audit() const;

 private:
  enum class Ending {
    kNone,
    kAwaited,  // its pods end without an order
    kOrdered,  // its pods are deleted
  };
  using MemberRef = std::pair<AttemptId, std::size_t>;
  struct Standing {  // a pod in the rule book
    std::string rules;
    bool terminating = false;
    friend bool operator==(const Standing&, const Standing&) = default;
  };
  struct Index {                                      // all derived from the tables
    std::map<NodeName, std::set<MemberRef>> members;  // live members of assignments that hold devices
    std::map<NodeName, std::set<std::string>> pods;   // pods bound to the node that have not ended
    // Our pods by the workload that they name, whether or not it owns them.
    std::map<WorkloadUid, std::set<std::string>> naming;
    std::map<NodeName, Instant> not_ready;              // next loss of a member; max() = none
    std::set<std::pair<Instant, AttemptId>> timed;      // when a row expires or is deleted
    std::set<NodeName> cutting;                         // with an order that has a timer
    std::set<WorkloadUid> wanting;                      // quota without a placement
    std::set<WorkloadUid> growing;                      // placed, with fewer members than requested
    std::map<WorkloadUid, std::int64_t> speaking;       // number of our unbound pods with rules
    std::set<WorkloadUid> expecting;                    // of those wanting: new pods on a node may make them fit
    std::set<WorkloadUid> short_of;                     // on the demand list
    std::set<WorkloadUid> unplaced;                     // of those growing: on the demand list with pods that have no node
    std::set<WorkloadUid> attending;                    // of those, pending ones with rules about other pods
    std::set<WorkloadUid> fitting;                      // on the requeue list
    std::set<WorkloadUid> standing;                     // with an active proposal
    std::map<NodeName, std::set<WorkloadUid>> held;     // workloads that hold capacity on the node
    std::set<NodeName> tidied;                          // nodes of the current defragmentation step
    std::map<WorkloadUid, std::set<NodeName>> cut_for;  // nodes repartitioned for the workload
    Preference preference;
    mutable Rooms rooms;  // see set_room(); a query may place pods in them and reverts them
    Shortlists lists;     // over `rooms`
    // Pods known to the rules. Hypothetical placements add pods and remove them again.
    std::unique_ptr<rules::RuleBook> book = std::make_unique<rules::RuleBook>();
    std::map<NodeName, std::map<std::string, Standing>> booked;  // pods in the book, by node and key
    std::map<NodeName, std::set<ClaimUse>> claims;               // claims of pods on the node
    friend bool operator==(const Index& a, const Index& b) {
      return a.members == b.members && a.pods == b.pods && a.naming == b.naming && a.not_ready == b.not_ready &&
             a.timed == b.timed && a.cutting == b.cutting && a.expecting == b.expecting && a.wanting == b.wanting &&
             a.growing == b.growing && a.short_of == b.short_of && a.unplaced == b.unplaced && a.fitting == b.fitting &&
             a.attending == b.attending && a.speaking == b.speaking && a.preference == b.preference &&
             a.standing == b.standing && a.held == b.held && a.tidied == b.tidied && a.cut_for == b.cut_for;
    }
  };
  struct Scratch {  // state of the running step
    Instant now{};
    Output out;
    std::set<NodeName> nodes;                                     // to evaluate
    std::set<AttemptId> attempts;                                 // to reconcile
    std::set<WorkloadUid> asked;                                  // to place
    std::set<AttemptId> changed;                                  // to publish
    std::set<AttemptId> evictions;                                // to publish
    std::set<NodeName> node_changed;                              // to publish
    std::set<NodeName> observed;                                  // with a new observation
    std::set<NodeName> uncordoned;                                // manually
    std::set<std::string> named;                                  // pods that name a workload; either is new
    std::map<NodeName, std::optional<HealthMark>> health_before;  // of nodes with a new verdict
    std::size_t command = 0;                                      // index of the current command
    std::set<WorkloadUid> heirs;                                  // holders of capacity on changed nodes
    std::set<WorkloadUid> contested;                              // their proposals are to be checked again
    bool unheld = false;                                          // held capacity was released
    bool demand = false;                                          // to publish
    bool requeue = false;                                         // to publish
    std::set<WorkloadUid> fell_back;                              // in back-off without capacity, pending again
    bool neighbors = false;  // neighbors changed: pending workloads with rules are compared again
    bool grew = false;       // capacity was added: short workloads are placed again
    bool freed = false;      // the same, since the last decisions
    bool stirred = false;    // neighbors changed: short workloads with rules are placed again
  };

  // engine.cpp: commands
  void apply(const Tick&) {}
  void apply(const WatchStarted&);
  void apply(const NodeSeen&);
  void apply(const NodeGone&);
  void apply(const NodesSynced&);
  void apply(const PodSeen&);
  void apply(const PodGone&);
  void apply(const PodsSynced&);
  void apply(const StorageSeen&);
  void apply(const StorageGone&);
  void apply(const StorageSynced&);
  void wake_for(const std::string& key);
  void apply(const WorkloadHeard&);
  void answer_stale(const AttemptId& newest);
  void apply(const HealthHeard&);
  void apply(const DrainHeard&);
  void apply(const DevicesHeard&);
  void apply(const OrderLayouts&);
  void apply(const SignsHeard&);
  void apply(const BindEnded&);
  void apply(const IntentFailed&);
  void remove_pod(const std::string& uid);
  void evaluate();
  [[nodiscard]] const Meta& meta() const;
  std::optional<Instant> next_timer() const;

  // nodes.cpp: evaluation of a node
  [[nodiscard]] std::string cordon_text(const NodeName& name) const;
  void evaluate_node(const NodeName& name);
  void lose_members(const NodeName& name, const std::string& message, std::int64_t grace_s,
                    const Node* not_ready = nullptr);
  [[nodiscard]] Instant lost_at(const Node& node, const Member& member) const;
  [[nodiscard]] Instant next_loss(const NodeName& name) const;
  void override_verdicts(const NodeName& name);
  void delete_lost(const std::string& pod_uid, std::int64_t grace_s);
  void blame_faulty(const NodeName& name, const HealthMark& health);
  void remove_node(const NodeName& name);
  void publish_status(const NodeName& name);
  [[nodiscard]] std::string own_causes(const NodeName& name) const;
  [[nodiscard]] std::vector<const Pod*> strangers(const NodeName& name) const;
  /// Hypothetical evictions: these attempts, and the capacity held for these workloads.
  struct Lifted {
    std::set<AttemptId> attempts;
    std::set<WorkloadUid> holds;
    bool spares = false;   ///< spare nodes, reserved for gangs that lost a node, may be used
    bool tidying = false;  ///< including capacity held for migrations that are not requested yet
  };
  [[nodiscard]] std::vector<DeviceUse> use_of(const NodeName& name, const Lifted& lifted) const;
  [[nodiscard]] Room room_of(const NodeName& name, const Lifted& lifted) const;
  [[nodiscard]] Room room_of(const NodeName& name) const { return room_of(name, {}); }
  void refresh_room(const NodeName& name);
  void set_room(const NodeName& name, Room room);

  // layouts.cpp: MIG layouts of nodes
  void cut_anew(const NodeName& name);
  [[nodiscard]] std::vector<relayout::Action> go_on(const NodeName& name, Cut& next) const;
  void fill_instances(const NodeName& name, Room& room, const std::set<AttemptId>& gone) const;
  void compare_capacity(const NodeName& name, Cut& next) const;
  void store_cut(const NodeName& name, Cut next);
  void make_way(const NodeName& name, const std::string& occupant, Cut& next);
  void ask_to_go(const AttemptId& id, const NodeName& name, const Cut& next, Instant save_until);
  void insist(const NodeName& name, const std::string& occupant, const Cut& next);
  [[nodiscard]] bool being_cut(const NodeName& name) const;
  [[nodiscard]] relayout::Seen seen_for_layout(const NodeName& name, const Cut& cut) const;
  [[nodiscard]] Result<relayout::Row> order_for(const NodeName& name, const std::string& layout,
                                                const mig::Definitions& definitions) const;
  [[nodiscard]] std::optional<relayout::Row> default_order(const NodeName& name, const DefaultLayout& fallback,
                                                           const mig::Definitions& definitions,
                                                           std::string* why_not) const;

  // recut.cpp: MIG repartition for pending workloads
  struct Recut {
    std::map<NodeName, std::string> layouts;  // new layouts by node
    std::vector<Member> members;              // its members after the repartition
    std::string why_not;                      // why there is none
    bool comes = false;                       // it fits a repartition in progress for others
  };
  void recut();
  void order_recut(const WorkloadUid& uid, const Recut& found);
  void end_recut(const WorkloadUid& uid);
  void review_wish(const NodeName& name, Cut& next) const;
  void tell_cut_for(const WorkloadUid& uid);
  [[nodiscard]] std::optional<Instant> may_recut_at(const WorkloadUid& uid) const;
  [[nodiscard]] std::size_t recuts_left(const WorkloadUid& uid) const;
  [[nodiscard]] std::string stays_cut(const NodeName& name, const Lifted& lifted) const;
  class Offers;
  [[nodiscard]] Recut recut_for(const WorkloadUid& uid, const Preference& preference) const;

  // adopt.cpp: devices that the kubelet allocated
  void adopt(const NodeName& name);

  // ownership.cpp: pods of a workload
  [[nodiscard]] bool is_pod_of(const PodFacts& pod, const WorkloadUid& uid) const;
  [[nodiscard]] std::vector<const Pod*> pods_of(const WorkloadUid& uid) const;
  [[nodiscard]] std::vector<const Pod*> pods_of(const AttemptId& id) const;
  std::vector<WorkloadUid> settle_for(const PodFacts& pod);
  void report_foreign(const std::string& pod_uid);

  // settle.cpp: reconciles one attempt with its pods
  void settle(const AttemptId& id);
  void note_successes(const WorkloadUid& uid);
  void settle_held(const AttemptId& id, Assignment& next, Ending ending, const std::vector<const Pod*>& pods);
  void fill_member(const AttemptId& id, Assignment& next, Member& member, Ending ending,
                   const std::vector<const Pod*>& pods);
  void end_if_idle(const AttemptId& id, Assignment& next);
  void drop_unused(const AttemptId& id, Assignment& next) const;
  void order_deletes(const AttemptId& id, const std::vector<const Pod*>& pods);
  void request_eviction(const AttemptId& id, Assignment& next, EvictionAsk ask);
  void forget(const AttemptId& id);
  [[nodiscard]] std::vector<AttemptId> attempts_of(const WorkloadUid& uid) const;
  void drop_workload_if_done(const WorkloadUid& uid);
  void store(const AttemptId& id, Assignment next);
  [[nodiscard]] Ending ending_of(const AttemptId& id) const;
  void send(Effect what);

  // neighbours.cpp: inter-pod rules
  class Beside;
  class Attaching;
  [[nodiscard]] std::set<ClaimUse> claims_on(const NodeName& name) const;
  [[nodiscard]] std::vector<std::vector<PodClaim>> own_claims_of(const AttemptId& id,
                                                                 const std::vector<PodSet>& pod_sets) const;
  [[nodiscard]] std::map<std::string, Standing> standing_on(const NodeName& name) const;
  void book_node(const NodeName& name);
  [[nodiscard]] std::vector<std::string> rules_of(const AttemptId& id, const std::vector<PodSet>& pod_sets) const;
  [[nodiscard]] std::vector<std::string> heeded(const std::vector<PodSet>& pod_sets,
                                                std::vector<std::string> rules) const;

  // decide.cpp: placement of workloads with quota
  void decide_waiting();
  void reckon();
  void decide(const WorkloadUid& uid, std::map<Asked, std::string>& hopeless);
  static void forget_ruled(std::map<Asked, std::string>& hopeless);
  void take_places(const AttemptId& id, std::span<const Member> members);
  [[nodiscard]] Placed place(const Asked& asked, Rooms& rooms, const Preference& preference,
                             Shortlists* lists = nullptr, Wanted wanted = Wanted::kReason,
                             const Where& where = {}) const;
  [[nodiscard]] Placed place_in(const Asked& asked, Rooms& rooms, const Preference& preference, Shortlists* lists,
                                Wanted wanted, const Where& where) const;
  [[nodiscard]] GpuPool pool_of(const Labels& labels, const std::vector<PodSet>& pod_sets) const;
  [[nodiscard]] std::uint32_t type_of(std::string_view workload_type) const;
  [[nodiscard]] Asked asked_by(const WorkloadUid& uid) const;
  struct Mounted {  // a request with the node constraints of its claims
    std::vector<PodSet> pod_sets;
    std::vector<std::optional<rules::PodTemplate>> likes;  // by pod set, or none
    std::string one_node;                                  // a claim that all pods of a set use on one node
    std::string blocked;                                   // why no node fits
  };
  [[nodiscard]] Mounted mounted(const Asked& asked) const;
  class WhatIf;
  void offer_to_pending();
  bool requeue_fitting(const std::set<WorkloadUid>& pending, std::int32_t round);  // returns whether any was offered
  void set_short(const WorkloadUid& uid, bool is_short);

  // grow.cpp: gangs with fewer members than requested
  [[nodiscard]] std::set<std::int32_t> missing_ranks(const AttemptId& id, const Assignment& row, std::size_t set) const;
  [[nodiscard]] std::vector<std::int32_t> awaited_ranks(const AttemptId& id, const Assignment& row,
                                                        std::size_t set) const;
  [[nodiscard]] bool has_least(const AttemptId& id, const Assignment& row) const;
  [[nodiscard]] bool misses_some(const AttemptId& id, const Assignment& row) const;
  [[nodiscard]] bool awaits_some(const AttemptId& id, const Assignment& row) const;
  struct Unit;
  [[nodiscard]] std::vector<Unit> units_of(const AttemptId& id, const Assignment& row, std::size_t set,
                                           const std::vector<PodSet>& pod_sets) const;
  bool grow(const WorkloadUid& uid);
  bool place_awaited(const WorkloadUid& uid);
  void note_unplaced(const WorkloadUid& uid);
  [[nodiscard]] std::vector<PodSet> unplaced_pods(const WorkloadUid& uid) const;

  // proposals.cpp: preemption proposals
  class Lift;
  class Stage;
  struct Leave;
  void hear_answer(const WorkloadHeard& heard);
  void review_proposals(const std::set<NodeName>& seen);
  void tend_proposals();
  void propose();
  void search(const WorkloadUid& uid, const std::set<AttemptId>& leaving);
  [[nodiscard]] std::optional<Proposal> room_by(const WorkloadUid& uid, const std::map<AttemptId, Leave>& who) const;
  void say(const WorkloadUid& uid);
  void drop_proposal(const WorkloadUid& uid, std::string why, Instant next);
  void forget_proposal(const WorkloadUid& uid);
  void put_proposal(const WorkloadUid& uid, Proposal next);
  void index_proposal(const WorkloadUid& uid, const Proposal& row, bool add);
  /// Held capacity that the workload may use: its own, and that of workloads with lower priority.
  [[nodiscard]] std::pair<Lifted, std::set<NodeName>> open_to(const WorkloadUid& uid, bool tidying) const;
  [[nodiscard]] std::vector<NodeName> lift_holds(const WorkloadUid& uid, bool tidying = false);
  void put_back_holds(const std::vector<NodeName>& nodes);
  [[nodiscard]] bool may_move(const AttemptId& id, const Assignment& row) const;
  /// `instances`: holders of MIG instances are candidates, too.
  [[nodiscard]] bool may_give_way(const AttemptId& id, const Assignment& row, const WorkloadUid& to,
                                  bool instances = false) const;
  [[nodiscard]] bool is_kept_from(const WorkloadUid& uid, const WorkloadUid& to) const;
  [[nodiscard]] std::optional<Instant> may_search_at(const WorkloadUid& uid) const;
  [[nodiscard]] std::set<AttemptId> still_there(const Proposal& row) const;
  [[nodiscard]] Placed placed_without(const WorkloadUid& uid, const std::set<AttemptId>& gone, Rooms& rooms) const;
  [[nodiscard]] Placed placed_without(const WorkloadUid& uid, const std::set<AttemptId>& gone, Rooms& rooms,
                                      const Cuts& cuts) const;
  [[nodiscard]] bool proposal_holds(const WorkloadUid& uid) const;

  // movers.cpp: migration of victims
  [[nodiscard]] bool may_go_elsewhere(const AttemptId& id, const Assignment& row, const WorkloadUid& for_whom) const;
  [[nodiscard]] Leave ways_of(const AttemptId& id, const Assignment& row, const WorkloadUid& to) const;
  [[nodiscard]] std::optional<std::vector<HeldPlace>> elsewhere(const WorkloadUid& mover,
                                                                const std::vector<HeldPlace>& planned,
                                                                Rooms& rooms) const;
  [[nodiscard]] bool movers_fit(const Proposal& row) const;
  void send_movers(const WorkloadUid& to);

  // drains.cpp: preemption for MIG instances
  class Drains;
  [[nodiscard]] bool drain(const WorkloadUid& uid, const std::set<AttemptId>& leaving);
  [[nodiscard]] bool drain_holds(const WorkloadUid& uid) const;
  [[nodiscard]] bool fits_idle(const WorkloadUid& uid) const;
  void begin_cuts(const WorkloadUid& uid);
  [[nodiscard]] Placed placed_cut(const WorkloadUid& uid, const std::set<AttemptId>& gone, const Cuts& cuts) const;
  [[nodiscard]] std::string drain_words(const WorkloadUid& uid) const;
  [[nodiscard]] bool think_cut(const Cuts& cuts, const Lifted& lifted, Rooms& rooms) const;

  // returning.cpp: recovery of gangs that lost a node
  void keep_for_return(const AttemptId& id, const Assignment& row);
  [[nodiscard]] bool returns_no_more(const WorkloadUid& uid, const Proposal& row) const;
  [[nodiscard]] std::vector<PodSet> missing_of(const WorkloadUid& uid) const;
  Placed place_returning(const WorkloadUid& uid, const Asked& asked);

  // moves.cpp: defragmentation
  [[nodiscard]] const TidyRun& tidy_run() const;
  void put_tidy(TidyRun next);
  void tidy_up();
  void look_for_moves();
  [[nodiscard]] bool next_move();
  void ask_to_move(TidyRun next);
  void end_tidying(const std::string& why);
  void end_move(const WorkloadUid& uid, const std::string& why);
  void hear_of_move(const WorkloadUid& uid, const ProposalAnswer& answer);
  void review_move(const WorkloadUid& uid);
  void tend_move(const WorkloadUid& uid);
  [[nodiscard]] bool still_wins(Winning& step) const;
  [[nodiscard]] bool moves(const WorkloadUid& uid) const;
  [[nodiscard]] Placed place_at(const WorkloadUid& uid, const std::vector<HeldPlace>& places) const;
  [[nodiscard]] std::int64_t moves_of_late() const;

  // index.cpp: derived state
  void index_assignment(const AttemptId& id, const Assignment* row, bool add);
  void index_pod(const Pod& pod, bool add);
  void index_workload(const WorkloadUid& uid);
  void index_cut_for(const WorkloadUid& uid, const NodeName& name, bool add);
  [[nodiscard]] Index build_index() const;
  void check_node(const NodeName& name) const;
  void check_assignment(const AttemptId& id, const Assignment& row) const;

  Options options_;
  Tables tables_;
  Index index_;
  Scratch scratch_;
  Instant last_now_{};
  Instant undo_now_{};
};

}  // namespace qm::placement
