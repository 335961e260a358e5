#pragma once
#include "qm/autoscaler/engine.hpp"
#include "qm/base/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// A hypothetical change of what a launch depends on. Without any change the result is the plan of the next step.
struct WhatIf {
  /// The price of an instance type: a new one, or the present one times `permille` / 1000.
  struct Price {
    std::string type;
    std::optional<Market> market;  ///< none = both
    std::string zone;              ///< of spot capacity; empty = all known zones
    std::optional<Money> per_hour;
    std::int64_t permille = 1000;  ///< used without `per_hour`
  };
  /// Offerings that can or cannot be launched, whatever the provider answered lately.
  struct Availability {
    std::string type;
    std::optional<Market> market;  ///< none = both
    std::string zone;              ///< empty = all
    bool available = false;
  };
  std::vector<Pool> pools;  ///< replaced by name, or new
  std::vector<std::string> deleted_pools;
  std::vector<Price> prices;
  std::vector<Availability> availability;
  std::vector<DemandUpdated::Item> demand;  ///< in addition; the uids are new
  std::vector<WorkloadUid> removed;         ///< from the demand list
};

/// What the next steps launch for the demand, with nothing refused meanwhile.
struct SimulatedPlan {
  struct Launch {
    ClaimName claim;
    Claim row;
    Money per_hour;
    std::string title;        ///< of the workload; empty: a static NodePool, a buffer or a replacement
    std::string other_owner;  ///< the controller that launches nodes of its namespace; empty = Quartermaster does
  };
  std::vector<Launch> launches;         ///< by claim
  std::vector<CapacityDecision> unmet;  ///< demand for which nothing starts
  Money per_hour;                       ///< of the launches
  Money starting_per_hour;              ///< of instances that start already for the demand
  PriceBound bound;                     ///< for the pods of the demand without room
  std::int64_t gpus = 0;                ///< of the launches
  std::int64_t pods = 0, in_room = 0;   ///< of the demand; those that fit running nodes
  std::int64_t starting = 0;            ///< instances that start already
};

/// Runs the next steps of the engine on a copy of its rows, with the change. The engine itself does not change.
///
/// Owner    demand of namespaces with another owner is planned too, and marked.
/// Bounds   at most kMostSteps steps of max_launches instances.
/// Threads  any, on an engine that no other thread changes meanwhile; a snapshot (copy_of) has no such limit.
/// Fails    kInvalid: an instance type is not in the catalog, or a NodePool, a price or a workload does not exist.
/// Cost     one copy of the rows, and the steps.
[[nodiscard]] Result<SimulatedPlan> simulate(const Engine& engine, const WhatIf& change, Instant now);
inline constexpr int kMostSteps = 50;

/// An engine with the same rows, catalog and options.
[[nodiscard]] std::unique_ptr<Engine> copy_of(const Engine& engine);
/// The same with the change of prices, NodePools and availability, without that of the demand.
///
/// Fails    as simulate
[[nodiscard]] Result<std::unique_ptr<Engine>> copy_with(const Engine& engine, const WhatIf& change, Instant now);

}  // namespace qm::autoscaler
