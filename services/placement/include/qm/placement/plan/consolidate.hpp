#pragma once
#include "qm/placement/pack/fragmentation.hpp"
#include "qm/placement/plan/plan.hpp"

#include <limits>
#include <vector>

namespace qm::placement::plan {

/// What tidying up may cost. A gang that moves stops as a whole, whichever of its pods move: GPU time is that of all its GPUs since the last
/// checkpoint, and its restart.
struct Budget {
  std::int64_t pods = std::numeric_limits<std::int64_t>::max();
  std::int64_t gpu_seconds = std::numeric_limits<std::int64_t>::max();
  MicroUsd cost = std::numeric_limits<MicroUsd>::max();
};

/// Nodes that are won together: everybody on them moves to nodes where somebody is already.
struct Emptying {
  std::vector<NodeId> nodes;  ///< ascending
  std::vector<Step> moves;    ///< of who has not moved in a step before
  std::int64_t pods = 0;
  std::int64_t gpu_seconds = 0;
  Costs cost;
};

struct Tidy {
  std::vector<Emptying> steps;                   ///< each after those before it
  std::int64_t free_before = 0, free_after = 0;  ///< nodes that have GPUs and no pods, and are not kept for repairs
  std::int64_t fragment_before = 0, fragment_after = 0;  ///< by the mix that was given, see pack::Fragmentation
  std::int64_t pods = 0, gpu_seconds = 0;
  Costs cost;
};

/// Whole nodes won back for the least lost work, the cheapest first, as long as the budget lasts. The gain is counted on a copy of the scene, on
/// which every step was carried out; the scene is not touched. Everybody moves at most once, to where he stays; nobody who may not be
/// displaced or moved, and gangs keep the rules of their topology. With a mix of the demand to come, a step that would leave more GPUs
/// that it cannot use is not made.
///
/// Laws     no step wins more nodes for its lost work than one before, so that a smaller budget does well with the first of them.
/// Order    least cost, then the first node. The same scene gives the same plan.
/// Cost     O(nodes in use) for each pod on a node that is tried, twice.
[[nodiscard]] Tidy consolidate(const Scene& scene, const Terms& terms, const Budget& budget = {},
                               const pack::Fragmentation* mix = nullptr);

/// Checks the next step against a scene that may have moved on: everyone on the node is in it, may be moved, and has room.
///
/// Fails    kAborted, with what changed.
[[nodiscard]] Status still_holds(Scene& scene, const Emptying& step, const Terms& terms);

}  // namespace qm::placement::plan
