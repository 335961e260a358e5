#pragma once
#include "node.hpp"

#include <functional>

namespace qm::autoscaler::pack {

struct BoundLimits {
  std::uint64_t rounds = 0;         ///< of the linear program
  std::size_t search_nodes = 2000;  ///< at most, of the search for one shape's best pattern
  std::size_t cells = 0;            ///< of the grid that solves small shapes, see grid.hpp; 0 = no grid
  double target = kNever;           ///< ends once the bound is at least this
  std::function<bool()> stop;
};

/// A cost that no plan for the classes can undercut: column generation over patterns of one node.
///
/// It ignores zones and the order of pods, and keeps capacity, node constraints and the host constraints among pods
/// of one group. Any prices of pods give a valid bound once no pattern is worth more than its shape costs; so the
/// bound needs no exact linear program.
/// Cost     a linear program with a row for each of at most 160 groups of equal pods, per round.
[[nodiscard]] double lower_bound(Model& model, const Nodes& plan, const BoundLimits& limits);

}  // namespace qm::autoscaler::pack
