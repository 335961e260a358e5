#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "qm/autoscaler/tables.hpp"

namespace qm::autoscaler {

struct Options {
  Duration boot = std::chrono::minutes(4);              ///< expected from launch to ready; promises are dated by it
  Duration registration = std::chrono::minutes(15);     ///< a node that takes longer is given up
  Duration capacity_memory = std::chrono::minutes(3);   ///< an offering without capacity is left alone so long
  Duration spot_margin = std::chrono::seconds(10);      ///< orders end so long before capacity is taken
  Duration settle = std::chrono::minutes(2);            ///< a gang's ready machines get so long before more are launched
  Duration failed_memory = std::chrono::minutes(10);    ///< a failed claim stays readable so long
  std::int32_t max_launches = 200;                      ///< nodes asked for in one step
};

// ---- what it says ----

struct InstanceEvent {
  ClaimName claim;
  Claim row;
};
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
};
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
  std::vector<std::pair<ClaimName, InstanceId>> strays;   ///< instances that no claim stands for: terminate by id
  std::optional<Instant> wake_at;
};

/// Decides on what capacity: turns demand into machines, empty machines into nothing, and a spot notice into a saved
/// checkpoint, an eviction and a replacement.
///
/// Demand   a gang on placement's list gets machines of the cheapest kind that holds it whole: the pools in order of
///          weight, in a pool the (type, market) with the lowest price for all its nodes together. Room left on
///          machines that are still coming is used first. A gang is launched whole or not at all.
/// Notice   the node is drained; gangs that can save are ordered to (every node of the gang), the others are evicted
///          at once; acknowledgements from all nodes, or the deadline, evict them with the step that all have saved.
/// Empty    a node of a pool that stays empty for the pool's consolidateAfter is drained, and terminated only when
///          placement has confirmed that it is cordoned and still empty.
/// Laws     one claim, one instance; a pool's machines never exceed its limits; no node with work is terminated
///          before its spot deadline; claims of a gang are requested in one step.
/// Threads  one. Time: `now` does not go back; what waits for time is in wake_at.
/// Cost     a step costs by demand items x types plus claims.
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
  [[nodiscard]] Tables& mutable_tables() { return tables_; }   ///< for the repository's restore
  [[nodiscard]] const InstanceType* type(const std::string& name) const;
  /// One sentence per waiting gang: what is launched for it, or why nothing is.
  [[nodiscard]] std::vector<std::string> explain(Instant now) const;

 private:
  // engine.cpp: facts
  void apply(const Tick&) {}
  void apply(const PoolApplied& c);
  void apply(const PoolRemoved& c);
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
  void adopt(const InstanceFact& fact);
  void say(const ClaimName& claim) { said_.insert(claim); }
  [[nodiscard]] const ClaimName* claim_of_node(const NodeName& node) const;

  // launch.cpp: demand to machines
  struct Offer {
    const Pool* pool = nullptr;
    const InstanceType* type = nullptr;
    Market market = Market::kOnDemand;
    std::int64_t nodes = 0;
    Money per_hour;
  };
  void cover_demand();
  bool covered(const DemandHeard::Item& item);
  [[nodiscard]] std::optional<Offer> cheapest(const DemandHeard::Item& item, std::string* why) const;
  [[nodiscard]] std::int64_t nodes_for(const DemandHeard::Item& item, const Pool& pool, const InstanceType& type) const;
  [[nodiscard]] HourlyRate price(const InstanceType& type, Market market) const;
  [[nodiscard]] bool within_limits(const Pool& pool, const InstanceType& type, std::int64_t nodes) const;
  void launch(const DemandHeard::Item& item, const Offer& offer);

  // retire.cpp: machines that go
  void time_out_claims();
  void retire_empty();
  void terminate(const ClaimName& name, const std::string& reason);
  void drain(const NodeName& node, const std::string& reason, std::optional<Instant> deadline);

  // spot.cpp: notices, orders, evictions
  void answer_notices();
  void settle_orders();
  void evict(const AttemptId& id, const NodeName& node, Instant deadline, const std::string& uri, std::int64_t step);

  [[nodiscard]] std::optional<Instant> next_timer() const;
  void check_laws() const;

  std::map<std::string, InstanceType> catalog_;
  Options options_;
  Tables tables_;
  // Of the running step.
  Instant now_{};
  Output out_;
  std::set<ClaimName> said_;
};

}  // namespace qm::autoscaler
