#pragma once
#include "qm/base/result.hpp"
#include "qm/placement/plan/cluster_model.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qm::placement::plan {

/// A pending gang, and which victims it may preempt.
struct PendingGang {
  std::string name;
  gang::Request request;
  std::int32_t priority = 0;                   ///< only gangs of lower priority may be evicted
  std::optional<std::vector<GangId>> victims;  ///< victims that admission allows; none: all that the other rules allow
};

/// Prices of time, work and topology, and the effort of a search.
struct CostModel {
  Instant now;
  MicroUsd gpu_second = 3'400;  ///< one lost GPU-second
  MicroUsd domain = 100;        ///< one unit of topology_cost()
  Duration requeue{};           ///< expected time of an evicted gang in the queue
  bool peers = false;           ///< true: gangs of the preemptor's own priority may be migrated, too
  /// Steps of the search: one for each gang that is evicted hypothetically or reverted, some 100 ns; 64 for
  /// each query of the fleet. At the end of the effort the best plan so far is returned.
  std::int64_t effort = 60'000;
};

struct Costs {
  MicroUsd lost_work = 0;  ///< since checkpoints, and restarts
  MicroUsd waiting = 0;    ///< of evicted gangs
  MicroUsd topology = 0;   ///< domains in use by the preemptor, and additional domains of migrated gangs
  [[nodiscard]] MicroUsd total() const { return lost_work + waiting + topology; }
};

struct Step {
  enum class What : std::uint8_t { kEvict, kMigrate, kPlace };
  What what = What::kPlace;
  GangId gang = 0;                       ///< not set for the step that places the preemptor
  std::vector<PodPlacement> from;        ///< of the gang, before; the plan depends on them
  std::vector<PodPlacement> placements;  ///< of the gang, afterwards; empty if it is evicted
  Costs cost;
};

/// How a pending gang gets its placement. Steps run in order: all victims leave before any gang is placed,
/// since a placement may use what a victim releases.
struct Plan {
  /// Evictions, migrations, then the placement; empty if the gang does not fit even without all gangs that may be
  /// displaced.
  std::vector<Step> steps;
  Costs cost;
  /// No other set of victims costs less, all counted as evicted. False: the search ended early, or it queried
  /// a fleet with constraints that allow only a stepwise search.
  bool exact = false;
  [[nodiscard]] bool placed() const { return !steps.empty(); }
  /// Victims, in the order of the steps.
  [[nodiscard]] std::vector<GangId> displaced() const;
};

/// Cost of stopping a gang now: work since the checkpoint, and the restart.
[[nodiscard]] MicroUsd lost_by(const ClusterModel& model, GangId gang, const CostModel& cost_model);
/// Whether the gang may be evicted for the preemptor, and the reason if not.
[[nodiscard]] Status may_evict(const ClusterModel& model, const PendingGang& pending, GangId gang,
                               const CostModel& cost_model);
/// The same for a migration.
[[nodiscard]] Status may_migrate(const ClusterModel& model, const PendingGang& pending, GangId gang,
                                 const CostModel& cost_model);
/// Eviction or migration.
[[nodiscard]] Status may_displace(const ClusterModel& model, const PendingGang& pending, GangId gang,
                                  const CostModel& cost_model);

/// Finds the cheapest placement of a pending gang: in the free capacity, or in that of victims. Victims are
/// displaced as whole gangs. Each is migrated if that costs less than its eviction, or if it may
/// not be evicted. The result is a proposal: the owner of quota evicts.
///
/// Laws     a gang that fits displaces no gang; only gangs that may_evict() and may_migrate() allow are
///          victims; with any one victim fewer the gang does not fit; never more expensive than evicting the
///          cheapest first until it fits, and keeping those that need not leave.
/// Order    least cost, then the first domain, then gangs of lower numbers stay. The same model and request
///          give the same plan.
/// Threads  one: hypothetical evictions are applied and reverted. The model is unchanged afterwards.
/// Fails    kInvalid, see gang::check().
/// Cost     one set without slices or spread above the nodes: O(pods of displaceable gangs);
///          docs/results/plans.md. Otherwise one query of the fleet for each step of a bisection.
[[nodiscard]] Result<Plan> plan(ClusterModel& model, const PendingGang& pending, const CostModel& cost_model);

/// Checks a plan against a newer model: victims may still be displaced, and have the same placements; the
/// preemptor still needs it; every placement is free once the victims have left; the cost has not grown by
/// more than a tenth.
///
/// Fails    kAborted, with what changed: plan again.
[[nodiscard]] Status still_holds(ClusterModel& model, const PendingGang& pending, const Plan& plan,
                                 const CostModel& cost_model);

/// Checks migrations alone, those of one gang each: every gang has the same placements, and fits its target
/// once all have left.
///
/// Fails    kAborted, with what changed.
[[nodiscard]] Status validate_moves(ClusterModel& model, std::span<const Step> steps);
/// Applies steps to the model. An evicted gang ends; a migrated gang has just saved a checkpoint.
void apply_plan(ClusterModel& model, std::span<const Step> steps, const CostModel& cost_model);

/// Applies a plan to the model. The pending gang then runs under its name, started now. Asserts that it fits.
GangId apply_plan(ClusterModel& model, const PendingGang& pending, const Plan& plan, const CostModel& cost_model);

}  // namespace qm::placement::plan
