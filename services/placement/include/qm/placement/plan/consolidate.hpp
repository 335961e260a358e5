#pragma once
#include "qm/placement/pack/fragmentation.hpp"
#include "qm/placement/plan/plan.hpp"

#include <limits>
#include <vector>

namespace qm::placement::plan {

/// Cost limits of a defragmentation. A gang that moves stops as a whole, whichever of its pods move. Its GPU
/// time is that of all its GPUs since the last checkpoint, plus its restart.
struct Budget {
  std::int64_t pods = std::numeric_limits<std::int64_t>::max();
  std::int64_t gpu_seconds = std::numeric_limits<std::int64_t>::max();
  MicroUsd cost = std::numeric_limits<MicroUsd>::max();
};

/// Nodes that are reclaimed together: all gangs on them move to other nodes in use.
struct NodeReclaim {
  std::vector<NodeId> nodes;  ///< ascending
  std::vector<Step> moves;    ///< gangs that have not moved in an earlier step
  std::int64_t pods = 0;
  std::int64_t gpu_seconds = 0;
  Costs cost;
};

struct DefragPlan {
  std::vector<NodeReclaim> steps;                        ///< each depends on the earlier ones
  std::int64_t free_before = 0, free_after = 0;          ///< nodes with GPUs and without pods, except closed nodes
  std::int64_t fragment_before = 0, fragment_after = 0;  ///< by the given mix, see pack::Fragmentation
  std::int64_t pods = 0, gpu_seconds = 0;
  Costs cost;
};

/// Reclaims whole nodes at the least lost work, the cheapest first, within the budget. The gain is measured
/// on a copy of the model with every step applied; the model is not changed. A gang moves at most once, to
/// its final placements. Gangs that may not be displaced or moved stay, and topology rules hold. With a mix of
/// future demand, a step that would increase the unusable GPUs is skipped.
///
/// Laws     a step never reclaims more nodes per lost work than an earlier one, so a smaller budget uses the
///          first steps.
/// Order    least cost, then the first node. The same model gives the same plan.
/// Cost     O(nodes in use) for each pod on a candidate node, twice.
[[nodiscard]] DefragPlan consolidate(const ClusterModel& model, const CostModel& cost_model, const Budget& budget = {},
                                     const pack::Fragmentation* mix = nullptr);

/// Checks the next step against a newer model: all gangs on the nodes are part of it, may be moved, and fit
/// their targets.
///
/// Fails    kAborted, with what changed.
[[nodiscard]] Status still_holds(ClusterModel& model, const NodeReclaim& step, const CostModel& cost_model);

}  // namespace qm::placement::plan
