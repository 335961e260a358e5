#pragma once
#include "qm/placement/plan/plan.hpp"

#include <optional>
#include <vector>

namespace qm::placement::plan {

/// How a gang goes on after a node is lost.
struct Repair {
  std::vector<Step>
      steps;  ///< who is displaced for it, if anybody; last the gang itself, its other pods where they were
  std::vector<NodeId> spares;  ///< nodes kept for repairs that it takes
  Costs cost;                  ///< of who is displaced; the gang's own loss is the node's fault
};

struct RepairOptions {
  bool displace = false;                       ///< others of lower priority, where there is no room
  std::optional<std::vector<GangId>> victims;  ///< as in Wish
};

/// New places for a gang's pods on a node, in the domains that the gang must keep to; every other pod keeps its node and rank.
///
/// Order    nearest to the rest of the gang at every level, then to its neighbours by rank; then ordinary nodes before those kept for repairs;
///          then nodes that take all, and the fullest.
/// Threads  one. The scene is what it was.
/// Fails    kNotFound: the gang has no pods there; kInvalid: it has MIG instances, and no new ones are found here; kExhausted: there is no room in its domain, and nobody whom it may displace makes any.
/// Cost     O(nodes) for each set and slice.
[[nodiscard]] Result<Repair> repair(Scene& scene, GangId gang, NodeId lost, const Terms& terms,
                                    const RepairOptions& options = {});

/// Checks a repair against a scene that may have moved on, see still_holds().
[[nodiscard]] Status still_holds(Scene& scene, const Repair& repair);
/// The scene as it leaves it: spares that are taken are ordinary nodes from now on.
void carry_out(Scene& scene, const Repair& repair, const Terms& terms);

/// Keeps nodes for repairs until each domain of the level has `count` of them, as far as it has nodes without pods: those with most GPUs,
/// then the last. Returns those that were added.
std::vector<NodeId> reserve(Scene& scene, Level level, std::int32_t count);

}  // namespace qm::placement::plan
