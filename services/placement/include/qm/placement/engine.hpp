#pragma once
#include "qm/kube_rules/rule_book.hpp"
#include "qm/placement/commands.hpp"
#include "qm/placement/defrag_input.hpp"
#include "qm/placement/diagnosis.hpp"
#include "qm/placement/outline.hpp"
#include "qm/placement/placement_request.hpp"
#include "qm/placement/policy.hpp"
#include "qm/placement/preference.hpp"
#include "qm/placement/shortlists.hpp"
#include "qm/placement/topology_placement.hpp"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace qm::placement {

struct RecoveryPlaces;
/// Constraints of a placement in addition to free capacity; null = none.
struct Where {
  const RecoveryPlaces* recovery = nullptr;  ///< gang recovery: the former nodes of the gang
  const TopologyPart* part = nullptr;        ///< only nodes of this part of the fleet
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
  PreemptionOptions preemption;
  DefragOptions defrag;
  MigRepartitionOptions mig_repartition;
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
  [[nodiscard]] PlacementRequest request_of(const std::vector<PodSet>& pod_sets, const WorkloadUid& uid = {}) const;
  /// The placement that would be decided now; nothing is stored.
  [[nodiscard]] PlacementResult dry_run(const std::vector<PodSet>& pod_sets, const WorkloadUid& uid = {}) const;
  [[nodiscard]] PlacementResult dry_run(const PlacementRequest& request, const WorkloadUid& uid = {}) const;
  /// Bandwidth of a placed or planned gang, and of alternative nodes that would fit it now: nearness.hpp.
  [[nodiscard]] std::vector<std::string> compared(const std::vector<PodSet>& pod_sets,
                                                  const std::vector<Member>& members) const;
  /// Constraints that prevent a placement of these pods now, and remedies; empty if they fit.
  [[nodiscard]] Diagnosis diagnose(const std::vector<PodSet>& pod_sets, const WorkloadUid& uid = {}) const;
  /// The same on a fleet without pods: if not empty, the end of other pods does not help. Only shapes and
  /// topology of the pods count: rules about other pods, volumes and MIG layouts may change meanwhile. Empty
  /// for pods with MIG profiles.
  [[nodiscard]] Diagnosis diagnose_without_pods(const std::vector<PodSet>& pod_sets) const;
  [[nodiscard]] std::vector<DemandItem> demand() const;
  /// Its number of items, without making them.
  [[nodiscard]] std::size_t demand_size() const;
  /// Pending workloads whose pods fit. An item leaves the list when its attempt ends or it gets quota.
  [[nodiscard]] std::vector<RequeueItem> requeue() const;
  /// Nodes and pods as numbers, for calculations outside the engine. One pass over nodes, members and pending
  /// workloads.
  [[nodiscard]] Outline outline() const;
  /// Nodes and migration candidates, to compute a defragmentation plan outside the engine. Capacity held for
  /// `movers` counts as free. One pass over nodes and members.
  [[nodiscard]] DefragInput defrag_input(const std::set<WorkloadUid>& movers = {}) const;
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
  [[nodiscard]] std::string repartition_status(const WorkloadUid& uid) const;
  /// Idle MIG instances by GPU and resource: those of the GPU's layout without those that pods hold.
  /// Instances of the attempts in `gone` count as idle.
  [[nodiscard]] NodeCapacity::Instances idle_instances(const NodeName& node,
                                                       const std::set<AttemptId>& gone = {}) const;
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
  struct BookedPod {  // a pod in the rule book
    std::string rules;
    bool terminating = false;
    friend bool operator==(const BookedPod&, const BookedPod&) = default;
  };
  struct Index {                                      // all derived from the tables
    std::map<NodeName, std::set<MemberRef>> members;  // live members of assignments that hold devices
    std::map<NodeName, std::set<std::string>> pods;   // pods bound to the node that have not ended
    // Our pods by the workload that they name, whether or not it owns them.
    std::map<WorkloadUid, std::set<std::string>> naming;
    std::map<NodeName, Instant> not_ready;                // next loss of a member; max() = none
    std::set<std::pair<Instant, AttemptId>> timed;        // when a row expires or is deleted
    std::set<NodeName> with_layout_timer;                 // with an order that has a timer
    std::set<WorkloadUid> without_placement;              // quota without a placement
    std::set<WorkloadUid> below_size;                     // placed, with fewer members than requested
    std::map<WorkloadUid, std::int64_t> pods_with_rules;  // number of our unbound pods with rules
    std::set<WorkloadUid> affinity_waiters;               // of those wanting: new pods on a node may make them fit
    std::set<WorkloadUid> short_of;                       // on the demand list
    std::set<WorkloadUid> unplaced;                  // of those growing: on the demand list with pods that have no node
    std::set<WorkloadUid> pending_with_rules;        // of those, pending ones with rules about other pods
    std::set<WorkloadUid> requeueable;               // on the requeue list
    std::set<WorkloadUid> with_proposal;             // with an active proposal
    std::map<NodeName, std::set<WorkloadUid>> held;  // workloads that hold capacity on the node
    std::set<NodeName> defrag_nodes;                 // nodes of the current defragmentation step
    std::map<WorkloadUid, std::set<NodeName>> repartitioned_for;  // nodes repartitioned for the workload
    Preference preference;
    mutable FreeCapacity free_capacity;  // see set_capacity(); a query may place pods in them and reverts them
    Shortlists lists;                    // over `free_capacity`
    // Pods known to the rules. Hypothetical placements add pods and remove them again.
    std::unique_ptr<rules::RuleBook> book = std::make_unique<rules::RuleBook>();
    std::map<NodeName, std::map<std::string, BookedPod>> booked;  // pods in the book, by node and key
    std::map<NodeName, std::set<ClaimUse>> claims;                // claims of pods on the node
    friend bool operator==(const Index& a, const Index& b) {
      return a.members == b.members && a.pods == b.pods && a.naming == b.naming && a.not_ready == b.not_ready &&
             a.timed == b.timed && a.with_layout_timer == b.with_layout_timer &&
             a.affinity_waiters == b.affinity_waiters && a.without_placement == b.without_placement &&
             a.below_size == b.below_size && a.short_of == b.short_of && a.unplaced == b.unplaced &&
             a.requeueable == b.requeueable && a.pending_with_rules == b.pending_with_rules &&
             a.pods_with_rules == b.pods_with_rules && a.preference == b.preference &&
             a.with_proposal == b.with_proposal && a.held == b.held && a.defrag_nodes == b.defrag_nodes &&
             a.repartitioned_for == b.repartitioned_for;
    }
  };
  struct Scratch {  // state of the running step
    Instant now{};
    Output out;
    std::set<NodeName> nodes;                                        // to evaluate
    std::set<AttemptId> attempts;                                    // to reconcile
    std::set<WorkloadUid> requested;                                 // to place
    std::set<AttemptId> changed;                                     // to publish
    std::set<AttemptId> evictions;                                   // to publish
    std::set<NodeName> node_changed;                                 // to publish
    std::set<NodeName> observed;                                     // with a new observation
    std::set<NodeName> uncordoned;                                   // manually
    std::set<std::string> named;                                     // pods that name a workload; either is new
    std::map<NodeName, std::optional<HealthVerdict>> health_before;  // of nodes with a new verdict
    std::size_t command = 0;                                         // index of the current command
    std::set<WorkloadUid> reservation_waiters;                       // holders of capacity on changed nodes
    std::set<WorkloadUid> proposals_to_recheck;                      // their proposals are to be checked again
    bool holds_released = false;                                     // held capacity was released
    bool demand = false;                                             // to publish
    bool requeue = false;                                            // to publish
    std::set<WorkloadUid> backoff_retries;                           // in back-off without capacity, pending again
    bool neighbors = false;            // neighbors changed: pending workloads with rules are compared again
    bool capacity_added = false;       // capacity was added: short workloads are placed again
    bool freed = false;                // the same, since the last decisions
    bool constraints_changed = false;  // neighbors changed: short workloads with rules are placed again
  };

  // engine.cpp: commands
  void apply(const Tick&) {}
  void apply(const WatchStarted&);
  void apply(const NodeUpdated&);
  void apply(const NodeDeleted&);
  void apply(const NodesSynced&);
  void apply(const PodUpdated&);
  void apply(const PodDeleted&);
  void apply(const PodsSynced&);
  void apply(const StorageUpdated&);
  void apply(const StorageDeleted&);
  void apply(const StorageSynced&);
  void retry_for(const std::string& key);
  void apply(const WorkloadUpdated&);
  void answer_outdated(const AttemptId& newest);
  void apply(const HealthUpdated&);
  void apply(const DrainUpdated&);
  void apply(const DevicesObserved&);
  void apply(const OrderLayouts&);
  void apply(const NodeReportUpdated&);
  void apply(const BindFinished&);
  void apply(const IntentFailed&);
  void remove_pod(const std::string& uid);
  void evaluate();
  [[nodiscard]] const Meta& meta() const;
  [[nodiscard]] bool requests_nodes(const WorkloadUid& uid) const;
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
  void evict_faulty(const NodeName& name, const HealthVerdict& health);
  void remove_node(const NodeName& name);
  void publish_status(const NodeName& name);
  [[nodiscard]] std::string own_causes(const NodeName& name) const;
  [[nodiscard]] std::vector<const Pod*> non_member_pods(const NodeName& name) const;
  /// Hypothetical evictions: these attempts, and the capacity held for these workloads.
  struct HypotheticalState {
    std::set<AttemptId> attempts;
    std::set<WorkloadUid> holds;
    bool spares = false;  ///< spare nodes, reserved for gangs that lost a node, may be used
    bool defrag = false;  ///< including capacity held for migrations that are not requested yet
  };
  [[nodiscard]] std::vector<DeviceUse> use_of(const NodeName& name, const HypotheticalState& hypothetical) const;
  [[nodiscard]] NodeCapacity capacity_of(const NodeName& name, const HypotheticalState& hypothetical) const;
  [[nodiscard]] NodeCapacity capacity_of(const NodeName& name) const { return capacity_of(name, {}); }
  void refresh_capacity(const NodeName& name);
  void set_capacity(const NodeName& name, NodeCapacity capacity);

  // layouts.cpp: MIG layouts of nodes
  void reconcile_layout(const NodeName& name);
  [[nodiscard]] std::vector<relayout::Action> continue_order(const NodeName& name, Repartition& next) const;
  void fill_instances(const NodeName& name, NodeCapacity& capacity, const std::set<AttemptId>& gone) const;
  void compare_capacity(const NodeName& name, Repartition& next) const;
  void store_repartition(const NodeName& name, Repartition next);
  void drain_for_layout(const NodeName& name, const std::string& occupant, Repartition& next);
  void request_layout_eviction(const AttemptId& id, const NodeName& name, const Repartition& next, Instant save_until);
  void force_evict(const NodeName& name, const std::string& occupant, const Repartition& next);
  [[nodiscard]] bool is_repartitioning(const NodeName& name) const;
  [[nodiscard]] relayout::Observed seen_for_layout(const NodeName& name, const Repartition& repartition) const;
  [[nodiscard]] Result<relayout::Row> order_for(const NodeName& name, const std::string& layout,
                                                const mig::Definitions& definitions) const;
  [[nodiscard]] std::optional<relayout::Row> default_order(const NodeName& name, const DefaultLayout& fallback,
                                                           const mig::Definitions& definitions,
                                                           std::string* why_not) const;

  // mig_repartition.cpp: MIG repartition for pending workloads
  struct MigRepartition {
    std::map<NodeName, std::string> layouts;  // new layouts by node
    std::vector<Member> members;              // its members after the repartition
    std::string why_not;                      // why there is none
    bool in_progress = false;                 // it fits a repartition in progress for others
  };
  void repartition();
  void order_repartition(const WorkloadUid& uid, const MigRepartition& found);
  void end_repartition(const WorkloadUid& uid);
  void review_hold(const NodeName& name, Repartition& next) const;
  void wake_repartitions(const WorkloadUid& uid);
  [[nodiscard]] std::optional<Instant> may_repartition_at(const WorkloadUid& uid) const;
  [[nodiscard]] std::size_t repartitions_left(const WorkloadUid& uid) const;
  [[nodiscard]] std::string why_not_repartition(const NodeName& name, const HypotheticalState& hypothetical) const;
  class MigLayoutCatalog;
  [[nodiscard]] MigRepartition plan_repartition(const WorkloadUid& uid, const Preference& preference) const;

  // adopt.cpp: devices that the kubelet allocated
  void adopt(const NodeName& name);

  // ownership.cpp: pods of a workload
  [[nodiscard]] bool is_pod_of(const PodFacts& pod, const WorkloadUid& uid) const;
  [[nodiscard]] std::vector<const Pod*> pods_of(const WorkloadUid& uid) const;
  [[nodiscard]] std::vector<const Pod*> pods_of(const AttemptId& id) const;
  std::vector<WorkloadUid> reconcile_for(const PodFacts& pod);
  void report_foreign(const std::string& pod_uid);

  // reconcile.cpp: reconciles one attempt with its pods
  void reconcile(const AttemptId& id);
  void note_successes(const WorkloadUid& uid);
  void reconcile_held(const AttemptId& id, Assignment& next, Ending ending, const std::vector<const Pod*>& pods);
  void fill_member(const AttemptId& id, Assignment& next, Member& member, Ending ending,
                   const std::vector<const Pod*>& pods);
  void evict_if_idle(const AttemptId& id, Assignment& next);
  void release_unused(const AttemptId& id, Assignment& next) const;
  void order_deletes(const AttemptId& id, const std::vector<const Pod*>& pods);
  void request_eviction(const AttemptId& id, Assignment& next, EvictionRequest ask);
  void forget(const AttemptId& id);
  [[nodiscard]] std::vector<AttemptId> attempts_of(const WorkloadUid& uid) const;
  void drop_workload_if_done(const WorkloadUid& uid);
  void store(const AttemptId& id, Assignment next);
  [[nodiscard]] Ending ending_of(const AttemptId& id) const;
  void send(Effect what);

  // inter_pod_rules.cpp: inter-pod rules
  class RuleBookConstraints;
  class VolumeLimits;
  [[nodiscard]] std::set<ClaimUse> claims_on(const NodeName& name) const;
  [[nodiscard]] std::vector<std::vector<PodClaim>> own_claims_of(const AttemptId& id,
                                                                 const std::vector<PodSet>& pod_sets) const;
  [[nodiscard]] std::map<std::string, BookedPod> booked_pods_on(const NodeName& name) const;
  void book_node(const NodeName& name);
  [[nodiscard]] std::vector<std::string> rules_of(const AttemptId& id, const std::vector<PodSet>& pod_sets) const;
  [[nodiscard]] std::vector<std::string> effective_rules(const std::vector<PodSet>& pod_sets,
                                                         std::vector<std::string> rules) const;

  // decide.cpp: placement of workloads with quota
  void decide_pending();
  void refresh_scores();
  void decide(const WorkloadUid& uid, std::map<PlacementRequest, std::string>& known_unschedulable);
  static void forget_ruled(std::map<PlacementRequest, std::string>& known_unschedulable);
  void reserve_places(const AttemptId& id, std::span<const Member> members);
  [[nodiscard]] PlacementResult place(const PlacementRequest& request, FreeCapacity& free_capacity,
                                      const Preference& preference, Shortlists* lists = nullptr,
                                      ResultDetail wanted = ResultDetail::kReason, const Where& where = {}) const;
  [[nodiscard]] PlacementResult place_in(const PlacementRequest& request, FreeCapacity& free_capacity,
                                         const Preference& preference, Shortlists* lists, ResultDetail wanted,
                                         const Where& where) const;
  [[nodiscard]] GpuPool pool_of(const Labels& labels, const std::vector<PodSet>& pod_sets) const;
  [[nodiscard]] std::uint32_t type_of(std::string_view workload_type) const;
  [[nodiscard]] PlacementRequest request_for(const WorkloadUid& uid) const;
  struct RequestWithVolumes {  // a request with the node constraints of its claims
    std::vector<PodSet> pod_sets;
    std::vector<std::optional<rules::PodTemplate>> likes;  // by pod set, or none
    std::string one_node;                                  // a claim that all pods of a set use on one node
    std::string blocked;                                   // why no node fits
  };
  [[nodiscard]] RequestWithVolumes mounted(const PlacementRequest& request) const;
  class WhatIf;
  void offer_to_pending();
  bool requeue_fitting(const std::set<WorkloadUid>& pending, std::int32_t round);  // returns whether any was offered
  void set_short(const WorkloadUid& uid, bool is_short);

  // elastic.cpp: gangs with fewer members than requested
  [[nodiscard]] std::set<std::int32_t> missing_ranks(const AttemptId& id, const Assignment& row, std::size_t set) const;
  [[nodiscard]] std::vector<std::int32_t> awaited_ranks(const AttemptId& id, const Assignment& row,
                                                        std::size_t set) const;
  [[nodiscard]] bool has_minimum(const AttemptId& id, const Assignment& row) const;
  [[nodiscard]] bool has_missing(const AttemptId& id, const Assignment& row) const;
  [[nodiscard]] bool has_awaited(const AttemptId& id, const Assignment& row) const;
  struct Unit;
  [[nodiscard]] std::vector<Unit> units_of(const AttemptId& id, const Assignment& row, std::size_t set,
                                           const std::vector<PodSet>& pod_sets) const;
  bool scale_up(const WorkloadUid& uid);
  bool place_awaited(const WorkloadUid& uid);
  void note_unplaced(const WorkloadUid& uid);
  [[nodiscard]] std::vector<PodSet> unplaced_pods(const WorkloadUid& uid) const;

  // proposals.cpp: preemption proposals
  class HypotheticalEvictions;
  class PreemptionProblem;
  struct VictimOptions;
  void on_answer(const WorkloadUpdated& update);
  void recheck_proposals(const std::set<NodeName>& seen);
  void advance_proposals();
  void propose();
  void search(const WorkloadUid& uid, const std::set<AttemptId>& terminating);
  [[nodiscard]] std::optional<Proposal> plan_victims(const WorkloadUid& uid,
                                                     const std::map<AttemptId, VictimOptions>& candidate_options) const;
  void publish_proposal(const WorkloadUid& uid);
  void drop_proposal(const WorkloadUid& uid, std::string why, Instant next);
  void forget_proposal(const WorkloadUid& uid);
  void put_proposal(const WorkloadUid& uid, Proposal next);
  void index_proposal(const WorkloadUid& uid, const Proposal& row, bool add);
  /// Held capacity that the workload may use: its own, and that of workloads with lower priority.
  [[nodiscard]] std::pair<HypotheticalState, std::set<NodeName>> holds_available_to(const WorkloadUid& uid,
                                                                                    bool defrag) const;
  [[nodiscard]] std::vector<NodeName> release_holds(const WorkloadUid& uid, bool defrag = false);
  void restore_holds(const std::vector<NodeName>& nodes);
  [[nodiscard]] bool may_defrag(const AttemptId& id, const Assignment& row) const;
  /// `instances`: holders of MIG instances are candidates, too.
  [[nodiscard]] bool may_preempt(const AttemptId& id, const Assignment& row, const WorkloadUid& to,
                                 bool instances = false) const;
  [[nodiscard]] bool is_refused(const WorkloadUid& uid, const WorkloadUid& to) const;
  [[nodiscard]] std::optional<Instant> may_search_at(const WorkloadUid& uid) const;
  [[nodiscard]] std::set<AttemptId> remaining_victims(const Proposal& row) const;
  [[nodiscard]] PlacementResult placed_without(const WorkloadUid& uid, const std::set<AttemptId>& gone,
                                               FreeCapacity& free_capacity) const;
  [[nodiscard]] PlacementResult placed_without(const WorkloadUid& uid, const std::set<AttemptId>& gone,
                                               FreeCapacity& free_capacity, const NodeLayouts& repartitions) const;
  [[nodiscard]] bool proposal_is_valid(const WorkloadUid& uid) const;

  // migrations.cpp: migration of victims
  [[nodiscard]] bool may_migrate(const AttemptId& id, const Assignment& row, const WorkloadUid& preemptor) const;
  [[nodiscard]] VictimOptions victim_options(const AttemptId& id, const Assignment& row, const WorkloadUid& to) const;
  [[nodiscard]] std::optional<std::vector<HeldCapacity>> migration_target(const WorkloadUid& mover,
                                                                          const std::vector<HeldCapacity>& planned,
                                                                          FreeCapacity& free_capacity) const;
  [[nodiscard]] bool migrations_fit(const Proposal& row) const;
  void start_migrations(const WorkloadUid& to);

  // mig_preemption.cpp: preemption for MIG instances
  class MigPreemption;
  [[nodiscard]] bool drain(const WorkloadUid& uid, const std::set<AttemptId>& terminating);
  [[nodiscard]] bool mig_preemption_is_valid(const WorkloadUid& uid) const;
  [[nodiscard]] bool fits_idle(const WorkloadUid& uid) const;
  void start_repartition(const WorkloadUid& uid);
  [[nodiscard]] PlacementResult placed_with_layouts(const WorkloadUid& uid, const std::set<AttemptId>& gone,
                                                    const NodeLayouts& repartitions) const;
  [[nodiscard]] std::string mig_preemption_status(const WorkloadUid& uid) const;
  [[nodiscard]] bool apply_layouts(const NodeLayouts& repartitions, const HypotheticalState& hypothetical,
                                   FreeCapacity& free_capacity) const;

  // gang_recovery.cpp: recovery of gangs that lost a node
  void hold_for_recovery(const AttemptId& id, const Assignment& row);
  [[nodiscard]] bool recovery_over(const WorkloadUid& uid, const Proposal& row) const;
  [[nodiscard]] std::vector<PodSet> missing_of(const WorkloadUid& uid) const;
  PlacementResult place_recovery(const WorkloadUid& uid, const PlacementRequest& request);

  // defrag_executor.cpp: defragmentation
  [[nodiscard]] const DefragRun& defrag_run() const;
  void put_defrag(DefragRun next);
  void run_defrag();
  void plan_defrag();
  [[nodiscard]] bool next_migration();
  void request_migration(DefragRun next);
  void end_defrag(const std::string& why);
  void end_migration(const WorkloadUid& uid, const std::string& why);
  void on_migration_answer(const WorkloadUid& uid, const ProposalAnswer& answer);
  void review_migration(const WorkloadUid& uid);
  void advance_migration(const WorkloadUid& uid);
  [[nodiscard]] bool step_is_valid(DefragStep& step) const;
  [[nodiscard]] bool moves(const WorkloadUid& uid) const;
  [[nodiscard]] PlacementResult place_at(const WorkloadUid& uid, const std::vector<HeldCapacity>& places) const;
  [[nodiscard]] std::int64_t recent_migrations() const;

  // index.cpp: derived state
  void index_assignment(const AttemptId& id, const Assignment* row, bool add);
  void index_pod(const Pod& pod, bool add);
  void index_workload(const WorkloadUid& uid);
  void index_repartitioned_for(const WorkloadUid& uid, const NodeName& name, bool add);
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
