#pragma once
#include "qm/autoscaler/tables.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace qm::autoscaler {

struct Options {
  Duration boot = std::chrono::minutes(4);             ///< expected from launch to ready; promises are dated by it
  Duration registration = std::chrono::minutes(15);    ///< a node that takes longer is given up
  Duration capacity_memory = std::chrono::minutes(3);  ///< an offering that was refused is left alone so long
  Duration spot_margin = std::chrono::seconds(10);     ///< orders end so long before capacity is taken
  Duration settle = std::chrono::minutes(2);           ///< placement gets so long to use a gang's ready machines
  Duration extension = std::chrono::minutes(1);        ///< of a promise whose machines are late
  Duration pause = std::chrono::minutes(10);           ///< after machines came in vain; doubles each time
  Duration failed_memory = std::chrono::minutes(10);   ///< a failed claim stays readable so long
  Duration gone_memory = std::chrono::hours(1);        ///< and one that stopped, so long
  Duration missing = std::chrono::minutes(10);         ///< not described for so long = gone
  std::int32_t max_launches = 200;  ///< nodes asked for in one step, so also for one gang; and as many replicas
};

// ---- what it says ----

struct InstanceEvent {
  ClaimName claim;
  Claim row;
  bool over = false;  ///< the last word about it
};
/// One for each waiting gang: a renewal takes the place of what was promised before.
struct PromiseEvent {
  AttemptId id;
  Instant ready_by{};
  std::vector<ClaimName> claims;
  bool withdrawn = false;
};
struct EvictionEvent {
  AttemptId id;
  NodeName node;
  std::string reason;
  Instant deadline{};
  std::string resume_uri;
  std::int64_t step = 0;
  bool over = false;  ///< the attempt has ended: nothing is left to evict
};
struct OrderEvent {
  std::string id;
  Order row;
};
struct DrainEvent {
  NodeName node;
  std::string reason;
  std::optional<Instant> deadline;
  bool lifted = false;
  Instant asked{};
};
/// Why a node is drained, a gang asked to save, and evicted, when a spot notice has named its node.
inline constexpr const char* kSpotInterruption = "SpotInterruption";

struct SpotPriceEvent {
  std::string type, zone;
  PriceRow row;
};

/// What to do to the cloud. The claim's name is the client token: a repeat launches nothing more.
struct LaunchIntent {
  ClaimName claim;
  Claim row;
  Pool pool;
};
struct TerminateIntent {
  ClaimName claim;
  InstanceId instance;
  Instant asked{};
  std::string group;  ///< that would replace it, unless it is ended there
};
/// The machines that an Auto Scaling group should have: a whole number, so a repeat asks for nothing more.
struct GroupIntent {
  std::string group;
  std::int64_t size = 0;
  std::int64_t number = 0;  ///< of the asking: one asked again is another
};

struct Output {
  std::vector<InstanceEvent> instances;
  std::vector<PromiseEvent> promises;
  std::vector<EvictionEvent> evictions;
  std::vector<OrderEvent> orders;
  std::vector<DrainEvent> drains;
  std::vector<SpotPriceEvent> prices;
  std::vector<LaunchIntent> launches;
  std::vector<TerminateIntent> terminations;
  std::vector<GroupIntent> groups;
  std::optional<Instant> wake_at;
};

/// Decides on what capacity: turns demand into machines, empty machines into nothing, and a spot notice into a saved
/// checkpoint, an eviction and a replacement.
///
/// Demand   a gang on placement's list gets machines of the cheapest kind that holds it whole: the pools in order of
///          weight, in a pool the offering (type, zone, market) with the lowest price for all its nodes together. Room
///          left on machines that are still coming is used first. A gang is launched whole or not at all; where some
///          of its machines fail, only the missing part is launched again. Machines that came and that placement did
///          not use are not launched again at once: the pause doubles each time. Pods that a running gang lacks come after
///          pending gangs of their priority, and get instances for as many of them as limits and capacity allow.
/// Labels   a label that a pool's requirements leave open gets the value that the gang's pods select, else the lowest allowed. Where
///          zones are excluded only those that are known (by a price, a machine or a pool) are asked for.
/// Static   a pool with replicas has so many machines whatever the demand, the cheapest that it allows, and is launched from for
///          nothing else. One that goes is replaced at once, within the limits. Those beyond go when they are empty, the newest
///          first; within the number none goes for being empty.
/// Promise  dated, one per gang; renewed for its next attempt and while its machines are late, withdrawn when they do
///          not come. Where the demand has gone it lapses by its date, since that may mean that the gang has a place.
/// Cloud    an instance carries its claim's name, so a launch whose answer was lost is found again. One of this
///          cluster that no claim stands for is taken in: it is used, or goes as an empty one. Others are reported.
/// Group    of a pool whose machines an Auto Scaling group makes, claims are not launched one by one: the group's size
///          is set to the number of claims, and its machines are matched to them, oldest first, as they are seen.
/// Notice   the node is drained; gangs that can save are ordered to (every node of the gang), the others are evicted
///          at once; acknowledgements from all nodes, or the deadline, evict them with the step that all have saved.
///          So does a gang that placement wants to save and to go.
/// Empty    a node of a pool that stays empty for the pool's consolidateAfter is drained, and terminated only when
///          placement has confirmed that it is cordoned and still empty. A broken one goes the same way.
/// Owner    for work of a namespace whose machines another decides on nothing is launched, it is only explained what
///          would be. A plan that stands is followed to its end. Where scaling is ours nowhere, empty machines stay.
/// Laws     one claim, one instance; a launch never takes a pool over its limits; no node with work is terminated
///          before its spot deadline; nothing is launched for a gang in parts that do not hold it whole.
/// Bounds   rows end with what they speak of: claims an hour after the machine, orders with the attempt, plans with
///          the demand, marks of nodes that placement does not know after the registration time.
/// Threads  one. Time: `now` does not go back; what waits for time is in wake_at.
/// Cost     a step costs by claims plus demand items x offerings.
class Engine {
 public:
  using Command = autoscaler::Command;
  using Output = autoscaler::Output;

  Engine(std::vector<InstanceType> catalog, Options options = {});
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Output step(std::span<const Command> batch, Instant now);
  void undo();
  void commit();
  [[nodiscard]] std::uint64_t digest() const;

  [[nodiscard]] const Tables& tables() const { return tables_; }
  [[nodiscard]] Tables& mutable_tables() { return tables_; }  ///< for the repository's restore
  [[nodiscard]] Instant now() const { return now_; }          ///< of the last step
  [[nodiscard]] const InstanceType* type(const std::string& name) const;
  /// One sentence per waiting gang: what is launched for it, or why nothing is. Then one for each static pool that does not have
  /// its number of machines.
  /// With `sees`, only of gangs of the namespaces that it is true for.
  using Sees = std::function<bool(const std::string& ns)>;
  [[nodiscard]] std::vector<std::string> explain(Instant now, std::size_t most = SIZE_MAX, const Sees& sees = {}) const;
  [[nodiscard]] std::string namespace_of(const WorkloadUid& uid) const;  ///< empty where it is not known
  /// Machines that each static pool has or gets, without those that go.
  [[nodiscard]] std::map<std::string, std::int64_t> replicas() const;

 private:
  // engine.cpp: facts
  void apply(const Tick&) {}
  void apply(const PoolsApplied& c);
  void apply(const DemandHeard& c);
  void apply(const InstancesSeen& c);
  void apply(const SpotPricesSeen& c);
  void apply(const NodeHeard& c);
  void apply(const AssignmentHeard& c);
  void apply(const WorkloadHeard& c);
  void apply(const SpotNoticeHeard& c);
  void apply(const AckHeard& c);
  void apply(const HealthHeard& c);
  void apply(const LaunchEnded& c);
  void apply(const TerminateEnded& c);
  void apply(const GroupRefused& c);
  void apply(const OwnersHeard& c);
  void apply(const SaveAsked& c);
  void adopt(const InstanceFact& fact, std::map<InstanceId, ClaimName>& by_instance);
  NodeRow& mark(const NodeName& node);
  void forget_node(const NodeName& node);
  void enter(const ClaimName& claim, ClaimState state, const std::string& reason);
  void forget_claim(const ClaimName& claim);
  void say(const ClaimName& claim) { said_.insert(claim); }
  [[nodiscard]] const NodeRow* node_of(const Claim& claim) const;
  [[nodiscard]] const OwnerRow* other_owner(const DemandHeard::Item& item) const;
  [[nodiscard]] bool scales_somewhere() const;

  // launch.cpp: demand to machines
  struct Room;
  struct Fit;
  struct Usage;
  struct Offer;
  using Rooms = std::map<ClaimName, Room>;
  enum class Cover { kOpen, kCovered, kPaused };
  void cover_demand();
  [[nodiscard]] std::optional<DemandHeard::Item> affordable_part(const DemandHeard::Item& item,
                                                                 const std::map<std::string, Usage>& usage,
                                                                 std::int64_t launches) const;
  [[nodiscard]] std::string subject_of(const DemandHeard::Item& item) const;
  Cover review(const DemandHeard::Item& item);
  bool provide(const DemandHeard::Item& item, Rooms& rooms, std::map<std::string, Usage>& usage,
               std::int64_t& launches);
  void promise(const AttemptId& id, Plan plan);
  void withdraw(const WorkloadUid& uid);
  [[nodiscard]] std::string title_of(
      const AttemptId& id) const;  ///< "namespace/name"; its uid and attempt until that is known
  void pause(const WorkloadUid& uid);
  void end_lapsed_plans();
  [[nodiscard]] bool doomed(const Claim& claim) const;
  [[nodiscard]] Rooms coming_rooms() const;
  [[nodiscard]] std::map<std::string, Usage> usage() const;
  /// Why no type of these NodePools fits, and the change that would.
  [[nodiscard]] std::string no_type(const std::vector<PodSet>& sets, const std::vector<const Pool*>& pools) const;
  [[nodiscard]] std::optional<Offer> cheapest(const std::vector<PodSet>& sets,
                                              const std::map<std::string, Usage>& usage, std::string* why) const;
  [[nodiscard]] std::int64_t nodes_for(const std::vector<PodSet>& sets, const Pool& pool, const Labels& labels,
                                       const InstanceType& type, const std::string& zone, Market market) const;
  void known_zones(const InstanceType& type, std::vector<std::string>& zones) const;
  void launch(const ClaimName& name, const Claim& claim, const Pool& pool);
  [[nodiscard]] std::vector<Offering> offerings(const Pool& pool, const InstanceType& type,
                                                const std::vector<PodSet>& sets) const;
  [[nodiscard]] std::optional<HourlyRate> price(const InstanceType& type, const Offering& offering,
                                                const Pool& pool) const;

  // replicas.cpp: pools with a number of machines
  void keep_replicas();
  [[nodiscard]] std::optional<Offer> cheapest_replica(const Pool& pool, const Usage& in_use, std::string* why) const;
  [[nodiscard]] std::set<ClaimName> surplus_replicas(const std::vector<ClaimName>& candidates) const;
  void explain_replicas(std::vector<std::string>& lines) const;

  // retire.cpp: machines that come up late or not at all, and those that nobody needs
  void join_nodes();
  void time_out();
  void end_drained();
  void retire_empty();
  void keep(const ClaimName& name, const std::string& reason);
  void terminate(const ClaimName& name, const std::string& reason);
  void drain(const NodeName& node, const std::string& reason, std::optional<Instant> deadline);
  void lift_drain(const NodeName& node);

  // groups.cpp: machines that an Auto Scaling group makes
  [[nodiscard]] const Pool* pool_of_group(const std::string& group) const;
  [[nodiscard]] std::optional<ClaimName> claim_for(const InstanceFact& fact) const;
  void size_groups();
  void give_up(const ClaimName& name, const std::string& reason);

  // spot.cpp: notices, orders, evictions
  void answer_notices();
  void answer_saves();
  void order_saving(const AttemptId& id, const AttemptRow& attempt, const NodeName& node, Instant deadline,
                    const std::string& reason);
  void settle_orders();

  [[nodiscard]] std::optional<Instant> next_timer() const;
  void check_laws() const;

  std::map<std::string, InstanceType> catalog_;
  Options options_;
  Tables tables_;
  // Of the running step.
  Instant now_{};
  Output out_;
  std::set<ClaimName> said_;
  bool more_replicas_ = false;  // are to be launched, a moment later
};

}  // namespace qm::autoscaler
