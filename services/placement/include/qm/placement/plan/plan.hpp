#pragma once
#include "qm/base/result.hpp"
#include "qm/placement/mig/reslice.hpp"
#include "qm/placement/plan/scene.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qm::placement::plan {

/// A gang that waits, and what its owner may ask of others.
struct Wish {
  std::string name;
  gang::Request request;
  std::int32_t priority = 0;  ///< only gangs of lower priority may be evicted
  MicroUsd waiting_per_s = 0;
  std::optional<Duration> otherwise;           ///< until there is room without a plan, where that is known
  std::optional<std::vector<GangId>> victims;  ///< whom admission lets go; none: whoever the other rules let go
  /// MIG instances that every pod gets, on one GPU of this family; then the request is of one set, without devices and topology.
  std::vector<mig::ProfileId> slices;
  mig::Family family = mig::Family::kSeven;
};

/// What turns time, work and closeness into money, and how long to search.
struct Terms {
  Instant now;
  MicroUsd gpu_second = 3'400;  ///< of one GPU, lost
  MicroUsd domain = 100;        ///< of one unit of topology_cost()
  Duration requeue{};           ///< that an evicted gang is expected to wait
  bool migrate = true;          ///< false: who is displaced is evicted
  bool peers = false;           ///< true: gangs of the wish's own priority may be put elsewhere, too
  bool reslice = true;          ///< false: devices are cut as they are, outside of a maintenance window
  mig::StepCosts reslicing{10'000, 10'000, 100'000};  ///< in micro-dollars
  /// Gangs lifted or put back, some 100 ns each, and 64 for each question to the fleet: where it is spent the best plan so far is given.
  std::int64_t effort = 60'000;
};

struct Costs {
  MicroUsd lost_work = 0;  ///< since checkpoints, and restarts
  MicroUsd waiting = 0;    ///< of those evicted
  MicroUsd reslicing = 0;
  MicroUsd topology = 0;  ///< domains in use by the wish; and by who migrates, more than before
  [[nodiscard]] MicroUsd total() const { return lost_work + waiting + reslicing + topology; }
};

/// One GPU cut anew.
struct Recut {
  NodeId node = 0;
  std::int32_t device = 0;
  mig::StateId before = mig::kNoState, after = mig::kNoState;  ///< kNoState: whole, the MIG mode off
  std::vector<mig::SpotId> destroy, create;                    ///< in this order
  friend bool operator==(const Recut&, const Recut&) = default;
};

struct Step {
  enum class What : std::uint8_t { kEvict, kMigrate, kReslice, kPlace };
  What what = What::kPlace;
  GangId gang = 0;            ///< without meaning where the wish is placed
  std::vector<Seat> from;     ///< of the gang, before: a plan counts on it
  std::vector<Seat> seats;    ///< of the gang, afterwards; none where it is evicted
  std::vector<Slice> slices;  ///< likewise; a gang that has slices is not migrated
  std::optional<Recut> recut;
  Costs cost;
};

/// How a wish gets its place. Steps are carried out in their order: whoever leaves has left before anybody comes, for a place may be
/// one that another gives up.
struct Plan {
  enum class Verdict : std::uint8_t {
    kPlaced,
    kWait,   ///< there is a plan, but waiting until `otherwise` costs less
    kNever,  ///< not even if all left who may be displaced
  };
  Verdict verdict = Verdict::kNever;
  std::vector<Step> steps;  ///< evictions, migrations, devices cut anew, then the wish; none unless placed
  Costs cost;               ///< of the plan, where there is one, taken or not
  /// No set of gangs that leave costs less, all counted as if evicted. False: the search was cut, or asked the fleet by rules that it follows
  /// step by step.
  bool exact = false;
  [[nodiscard]] bool placed() const { return verdict == Verdict::kPlaced; }
  /// Who leaves his seats, in the order of the steps.
  [[nodiscard]] std::vector<GangId> displaced() const;
};

/// What a gang's stop costs now: work since the checkpoint, and the restart.
[[nodiscard]] MicroUsd lost_by(const Scene& scene, GangId gang, const Terms& terms);
/// Whether it may lose its place for the wish, and where not, why.
[[nodiscard]] Status may_evict(const Scene& scene, const Wish& wish, GangId gang, const Terms& terms);
/// Likewise whether it may be put elsewhere.
[[nodiscard]] Status may_migrate(const Scene& scene, const Wish& wish, GangId gang, const Terms& terms);
/// One or the other.
[[nodiscard]] Status may_displace(const Scene& scene, const Wish& wish, GangId gang, const Terms& terms);

/// The cheapest way to a place for a wish: as it is; or on devices that are cut anew; or by gangs that leave, whole, each put elsewhere where that costs less than to
/// evict it, or where it may not be evicted. A proposal: whoever rules over quota evicts.
///
/// Laws     a wish with a place displaces nobody; only whom may_evict() and may_migrate() allow; without any one of the displaced the wish
///          has no place; never dearer than evicting the cheapest first until there is room and taking back who need not go.
/// Order    least cost, then the first domain, then gangs of lower numbers stay. The same scene and wish give the same plan.
/// Threads  one: gangs are lifted and put back. The scene is what it was.
/// Fails    kInvalid, see gang::check().
/// Cost     one set without slices or spread above the nodes: O(seats of who may be displaced); docs/results/plans.md. Otherwise one
///          question to the fleet for each step of a bisection.
[[nodiscard]] Result<Plan> plan(Scene& scene, const Wish& wish, const Terms& terms);

/// Checks a plan against a scene that may have moved on: everyone displaced still may be, from where he was; the wish still needs
/// it; every seat is free once those have left; the cost has not grown by more than a tenth.
///
/// Fails    kAborted, with what changed: plan again.
[[nodiscard]] Status still_holds(Scene& scene, const Wish& wish, const Plan& plan, const Terms& terms);

/// Checks moves alone, those of one gang each: everyone is where he was, and has room where he goes once all have left.
///
/// Fails    kAborted, with what changed.
[[nodiscard]] Status moves_hold(Scene& scene, std::span<const Step> steps, bool even_spare = false);
/// Whoever is evicted ends; whoever moves has just saved his work.
void carry_out(Scene& scene, std::span<const Step> steps, const Terms& terms);

/// The scene as the plan leaves it. The wish comes to run as a gang of its name that began now. Asserts that there is room.
GangId carry_out(Scene& scene, const Wish& wish, const Plan& plan, const Terms& terms);

}  // namespace qm::placement::plan
