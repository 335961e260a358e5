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
/// What a decision is bound to beside the rooms; null = nothing.
struct Where {
  const Home* home = nullptr;  ///< it returns there
  const Part* part = nullptr;  ///< it stays in there
};

struct Options {
  Duration hold = std::chrono::minutes(5);  ///< a reservation waits so long for its pods
  Duration node_timeout =
      std::chrono::seconds(60);  ///< a place without a running pod is kept so long on a node that is not ready
  Duration keep_ended = std::chrono::minutes(10);     ///< an ended assignment stays readable so long
  Duration health_grace = std::chrono::seconds(120);  ///< deadline of an eviction for a faulty device
  Duration requeue_pause =
      std::chrono::milliseconds(250);  ///< what the first pending workloads leave free is offered to the next after it
  Duration returning{};                ///< a gang that lost a node has its other places kept so long; 0 = not
  std::string policy = "quartermaster";  ///< among nodes: one of pack::policy_names()
  TopologyLevels topology{std::string(words::kZone), "cloud.provider.com/topology-block",
                          "cloud.provider.com/topology-rack"};  ///< labels of nodes, the widest level first
  std::vector<relayout::Weekly> layout_windows;  ///< in which pods make way for a MIG layout; none = idle GPUs alone
  relayout::Limits layout_limits;
  Proposing proposing;
  Tidying tidying;
  Recutting recutting;
  /// Workload types (label workload-type) of which no two share a node: up to 32.
  std::vector<std::string> apart{"training", "inference"};
  std::map<std::string, GpuPool> pools{{"training", GpuPool::kWhole},
                                       {"inference", GpuPool::kSlices}};  ///< by workload type
};

/// Decides where gangs run: which nodes, which devices, and when those are free again.
///
/// Facts (nodes, pods, workloads, verdicts) are stored as heard; after each batch everything they touch is evaluated
/// again from the tables alone, so the order in which facts of different origin arrive does not matter.
///
/// Laws     no device is planned above 1000 milli; a held gang is whole; every member fits its node when it is
///          reserved; a device is free only when its pod is gone, has ended, or its node is lost; an attempt is
///          Released once, and only when it has no pod left. Asserted for what each step touched; audit() looks at all.
/// Time     `now` must not go back. Everything that waits for time is in wake_at.
/// Threads  one.
/// Cost     a decision looks at the nodes that have changed since pods like these were last asked for; where rules, claims or a topology are asked
///          for, and where there is no place, at all of them. A step otherwise costs by what it touches.
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
  /// For the repository: fill with Table::restore, then call rebuild().
  [[nodiscard]] Tables& mutable_tables() { return tables_; }
  void rebuild();

  /// What these pods ask for, as pods of that workload where it is known: with its type, its room, and what its pods tell.
  [[nodiscard]] Asked question(const std::vector<PodSet>& pod_sets, const WorkloadUid& uid = {}) const;
  /// What would be decided now; nothing is kept.
  [[nodiscard]] Placed dry_run(const std::vector<PodSet>& pod_sets, const WorkloadUid& uid = {}) const;
  [[nodiscard]] Placed dry_run(const Asked& asked, const WorkloadUid& uid = {}) const;
  /// The bandwidth of a gang that is or would be there, beside other places that would take it now: nearness.hpp.
  [[nodiscard]] std::vector<std::string> compared(const std::vector<PodSet>& pod_sets,
                                                  const std::vector<Member>& members) const;
  /// What is in the way of these pods now, and what would help; empty where they fit.
  [[nodiscard]] Obstacles obstacles(const std::vector<PodSet>& pod_sets, const WorkloadUid& uid = {}) const;
  /// The same if no pod ran anywhere: where these are not empty, it does not help to wait until other pods end. Of what pods ask, their shapes and
  /// topology count; rules about other pods and volumes may change meanwhile, and MIG layouts too, so pods with MIG profiles have none.
  [[nodiscard]] Obstacles obstacles_without_pods(const std::vector<PodSet>& pod_sets) const;
  [[nodiscard]] std::vector<DemandItem> demand() const;
  /// Pending workloads whose pods fit: an item leaves the list with its attempt, or when it gets quota.
  [[nodiscard]] std::vector<RequeueItem> requeue() const;
  /// Nodes and pods as numbers, to reckon with elsewhere. One pass over nodes, members and waiting workloads.
  [[nodiscard]] Outline outline() const;
  /// Nodes and who might move, to find out elsewhere what tidying up would win; without the room that is kept for these movers. One pass over
  /// nodes and members.
  [[nodiscard]] TidyQuestion tidy_question(const std::set<WorkloadUid>& movers = {}) const;
  [[nodiscard]] bool synced() const { return meta().nodes_synced && meta().pods_synced; }
  struct DeviceUse {
    std::int32_t used_milli = 0;
    bool healthy = true;
    bool parted = false;            ///< somebody has an instance of it: it is not given as a whole
    std::vector<std::string> pods;  ///< "namespace/pod", or the attempt while no pod is known
  };
  [[nodiscard]] std::vector<DeviceUse> devices_of(const NodeName& node) const;
  /// How the node's GPUs are cut: by its label where the node advertises what that layout has, else by what it advertises.
  /// Nothing where they cannot be cut, or how many there are is not known.
  [[nodiscard]] std::optional<mig::NodeLayout> layout_of(const NodeName& node) const;
  struct Planned {
    mig::Capacity capacity;  ///< that the node has to advertise by its label nvidia.com/mig.config
    std::string unknown;     ///< why nobody can say that
  };
  /// Nothing where the node has no such label.
  [[nodiscard]] std::optional<Planned> planned_of(const NodeName& node) const;
  /// "MIG_CAPACITY_MISMATCH: ..." where the node has long advertised other devices than its label's layout has; else empty.
  [[nodiscard]] std::string layout_finding(const NodeName& node) const;
  /// What is cut anew for a workload that waits for MIG instances, where and how far; or why nothing is. Empty where it wants none, has no quota,
  /// or nothing may be cut for anybody.
  [[nodiscard]] std::string recut_words(const WorkloadUid& uid) const;
  /// Idle instances by GPU and resource, as many as the GPU's layout has less those that pods hold; those of these attempts count as idle.
  [[nodiscard]] Room::Instances idle_instances(const NodeName& node, const std::set<AttemptId>& gone = {}) const;
  /// Checks every law over the whole state, and that the derived indexes agree with the tables. Aborts where broken.
  void audit() const;

 private:
  enum class Ending {
    kNone,
    kAwaited,  // its pods end by themselves
    kOrdered,  // its pods are deleted
  };
  using MemberRef = std::pair<AttemptId, std::size_t>;
  struct Standing {  // a pod in the book of rules
    std::string rules;
    bool terminating = false;
    friend bool operator==(const Standing&, const Standing&) = default;
  };
  struct Index {                                      // all derived from the tables
    std::map<NodeName, std::set<MemberRef>> members;  // live members of held assignments
    std::map<NodeName, std::set<std::string>> pods;   // pods bound there that have not ended
    std::map<WorkloadUid, std::set<std::string>>
        naming;                                         // our pods by the workloads that they name; not all are theirs
    std::map<NodeName, Instant> not_ready;              // when the next of its members is lost; max() = none is
    std::set<std::pair<Instant, AttemptId>> timed;      // expire, or are forgotten, and when
    std::set<NodeName> cutting;                         // with an order that goes on by itself at some time
    std::set<WorkloadUid> wanting;                      // quota without a place
    std::set<WorkloadUid> growing;                      // with a place, and with fewer members than they ask for
    std::map<WorkloadUid, std::int64_t> speaking;       // how many unbound pods of ours tell rules
    std::set<WorkloadUid> expecting;                    // of those wanting: who comes beside them may give them a place
    std::set<WorkloadUid> short_of;                     // on the demand list
    std::set<WorkloadUid> unplaced;                     // of those growing: on the demand list with pods that have no node
    std::set<WorkloadUid> attending;                    // of those, pending ones with rules about other pods
    std::set<WorkloadUid> fitting;                      // on the requeue list
    std::set<WorkloadUid> standing;                     // for whom something is proposed
    std::map<NodeName, std::set<WorkloadUid>> held;     // for whom room is kept there
    std::set<NodeName> tidied;                          // that the moves under way empty, and where they go
    std::map<WorkloadUid, std::set<NodeName>> cut_for;  // nodes that are cut for somebody
    Preference preference;
    mutable Rooms rooms;  // see set_room(); a question may place in them and puts back what it took
    Shortlists lists;     // of the rooms
    // Whom the rules know of. Questions of the kind "what if" put pods in and take them out again.
    std::unique_ptr<rules::RuleBook> book = std::make_unique<rules::RuleBook>();
    std::map<NodeName, std::map<std::string, Standing>> booked;  // what is in the book, by node and key
    std::map<NodeName, std::set<ClaimUse>> claims;               // that pods there use
    friend bool operator==(const Index& a, const Index& b) {
      return a.members == b.members && a.pods == b.pods && a.naming == b.naming && a.not_ready == b.not_ready &&
             a.timed == b.timed && a.cutting == b.cutting && a.expecting == b.expecting && a.wanting == b.wanting &&
             a.growing == b.growing && a.short_of == b.short_of && a.unplaced == b.unplaced && a.fitting == b.fitting &&
             a.attending == b.attending && a.speaking == b.speaking && a.preference == b.preference &&
             a.standing == b.standing && a.held == b.held && a.tidied == b.tidied && a.cut_for == b.cut_for;
    }
  };
  struct Scratch {  // of the running step
    Instant now{};
    Output out;
    std::set<NodeName> nodes;                                     // to evaluate
    std::set<AttemptId> attempts;                                 // to settle
    std::set<WorkloadUid> asked;                                  // to decide
    std::set<AttemptId> changed;                                  // to publish
    std::set<AttemptId> evictions;                                // to publish
    std::set<NodeName> node_changed;                              // to publish
    std::set<NodeName> observed;                                  // with a new observation
    std::set<NodeName> uncordoned;                                // manually
    std::set<std::string> named;                                  // pods that name a workload: seen, or the workload is
    std::map<NodeName, std::optional<HealthMark>> health_before;  // of nodes with a new verdict
    std::size_t command = 0;                                      // place of the one being applied
    std::set<WorkloadUid> heirs;                                  // something changed where room is kept for them
    std::set<WorkloadUid> contested;  // whether their proposal still does is to be looked at
    bool unheld = false;              // room is kept no more
    bool demand = false;              // to publish
    bool requeue = false;             // to publish
    std::set<WorkloadUid> fell_back;  // had no nodes, and are pending again
    bool neighbors = false;           // neighbors changed: pending workloads with rules are compared again
    bool grew = false;                // room appeared: shorts are tried again
    bool freed = false;               // the same, since the last decisions
    bool stirred = false;             // neighbours changed: shorts with rules are tried again
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

  // nodes.cpp: what a node's facts mean
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
  /// Whom a question takes away: these attempts, and the room that is kept for these workloads.
  struct Lifted {
    std::set<AttemptId> attempts;
    std::set<WorkloadUid> holds;
    bool spares = false;   ///< nodes that are kept for gangs that lost one may be used
    bool tidying = false;  ///< what is kept for moves that nobody was asked for yet
  };
  [[nodiscard]] std::vector<DeviceUse> use_of(const NodeName& name, const Lifted& lifted) const;
  [[nodiscard]] Room room_of(const NodeName& name, const Lifted& lifted) const;
  [[nodiscard]] Room room_of(const NodeName& name) const { return room_of(name, {}); }
  void refresh_room(const NodeName& name);
  void set_room(const NodeName& name, Room room);

  // layouts.cpp: how GPUs are cut by MIG
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

  // recut.cpp: GPUs cut anew for who waits
  struct Recut {
    std::map<NodeName, std::string> layouts;  // what is to be cut, and to what
    std::vector<Member> members;              // where its pods would be
    std::string why_not;                      // where nothing is
    bool comes = false;                       // it fits what is being cut for others
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

  // adopt.cpp: what the kubelet really gave
  void adopt(const NodeName& name);

  // ownership.cpp: which pods are a workload's
  [[nodiscard]] bool is_pod_of(const PodFacts& pod, const WorkloadUid& uid) const;
  [[nodiscard]] std::vector<const Pod*> pods_of(const WorkloadUid& uid) const;
  [[nodiscard]] std::vector<const Pod*> pods_of(const AttemptId& id) const;
  std::vector<WorkloadUid> settle_for(const PodFacts& pod);
  void report_foreign(const std::string& pod_uid);

  // settle.cpp: one attempt and its pods
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

  // neighbours.cpp: pods with rules about one another
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

  // decide.cpp: who gets what
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
  struct Mounted {  // what is asked, with what its claims ask of nodes
    std::vector<PodSet> pod_sets;
    std::vector<std::optional<rules::PodTemplate>> likes;  // by pod set, or none
    std::string one_node;                                  // a claim that all pods of a set use on one node
    std::string blocked;                                   // why nothing fits anywhere
  };
  [[nodiscard]] Mounted mounted(const Asked& asked) const;
  class WhatIf;
  void offer_to_pending();
  bool requeue_fitting(const std::set<WorkloadUid>& pending, std::int32_t round);  // whether any was offered
  void set_short(const WorkloadUid& uid, bool is_short);

  // grow.cpp: gangs that run with fewer than they ask for
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

  // proposals.cpp: who might give way
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
  /// What is kept and the workload may have: its own room, and that of those who come after it.
  [[nodiscard]] std::pair<Lifted, std::set<NodeName>> open_to(const WorkloadUid& uid, bool tidying) const;
  [[nodiscard]] std::vector<NodeName> lift_holds(const WorkloadUid& uid, bool tidying = false);
  void put_back_holds(const std::vector<NodeName>& nodes);
  [[nodiscard]] bool may_move(const AttemptId& id, const Assignment& row) const;
  /// `instances`: whoever has MIG instances may, too.
  [[nodiscard]] bool may_give_way(const AttemptId& id, const Assignment& row, const WorkloadUid& to,
                                  bool instances = false) const;
  [[nodiscard]] bool is_kept_from(const WorkloadUid& uid, const WorkloadUid& to) const;
  [[nodiscard]] std::optional<Instant> may_search_at(const WorkloadUid& uid) const;
  [[nodiscard]] std::set<AttemptId> still_there(const Proposal& row) const;
  [[nodiscard]] Placed placed_without(const WorkloadUid& uid, const std::set<AttemptId>& gone, Rooms& rooms) const;
  [[nodiscard]] Placed placed_without(const WorkloadUid& uid, const std::set<AttemptId>& gone, Rooms& rooms,
                                      const Cuts& cuts) const;
  [[nodiscard]] bool proposal_holds(const WorkloadUid& uid) const;

  // movers.cpp: who is put elsewhere for somebody
  [[nodiscard]] bool may_go_elsewhere(const AttemptId& id, const Assignment& row, const WorkloadUid& for_whom) const;
  [[nodiscard]] Leave ways_of(const AttemptId& id, const Assignment& row, const WorkloadUid& to) const;
  [[nodiscard]] std::optional<std::vector<HeldPlace>> elsewhere(const WorkloadUid& mover,
                                                                const std::vector<HeldPlace>& planned,
                                                                Rooms& rooms) const;
  [[nodiscard]] bool movers_fit(const Proposal& row) const;
  void send_movers(const WorkloadUid& to);

  // drains.cpp: who might give way to who wants MIG instances
  class Drains;
  [[nodiscard]] bool drain(const WorkloadUid& uid, const std::set<AttemptId>& leaving);
  [[nodiscard]] bool drain_holds(const WorkloadUid& uid) const;
  [[nodiscard]] bool fits_idle(const WorkloadUid& uid) const;
  void begin_cuts(const WorkloadUid& uid);
  [[nodiscard]] Placed placed_cut(const WorkloadUid& uid, const std::set<AttemptId>& gone, const Cuts& cuts) const;
  [[nodiscard]] std::string drain_words(const WorkloadUid& uid) const;
  [[nodiscard]] bool think_cut(const Cuts& cuts, const Lifted& lifted, Rooms& rooms) const;

  // returning.cpp: gangs that lost a node
  void keep_for_return(const AttemptId& id, const Assignment& row);
  [[nodiscard]] bool returns_no_more(const WorkloadUid& uid, const Proposal& row) const;
  [[nodiscard]] std::vector<PodSet> missing_of(const WorkloadUid& uid) const;
  Placed place_returning(const WorkloadUid& uid, const Asked& asked);

  // moves.cpp: whole nodes won back
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

  // index.cpp
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
