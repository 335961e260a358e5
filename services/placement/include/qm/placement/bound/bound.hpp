#pragma once
#include "qm/placement/pack/node_state.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace qm::placement::bound {

/// Equal nodes: the capacity of each for the pods, and their number.
struct NodeGroup {
  pack::NodeState node;
  std::int64_t count = 0;
};

/// A class of pods and how many of them request a placement.
struct Wanted {
  pack::PodClass pod;
  std::int64_t most = 0;   ///< requested
  std::int64_t least = 0;  ///< placed in every allocation that counts; at most `most`
};

struct Effort {
  int rounds = 300;                 ///< at most
  double close = 0.0002;            ///< convergence: relative distance to the best bound that this relaxation can prove
  std::function<bool()> stop = {};  ///< called repeatedly; true = return the current bound
};

struct Bound {
  std::int64_t gpu_milli = 0;      ///< no allocation is larger
  std::vector<double> node_milli;  ///< by group: what one more such node would add to the bound, in milli-GPU
  std::vector<double> pod_milli;   ///< by class: what one more such pod would add; negative: the price of `least`
  int rounds = 0;                  ///< of column generation
  bool close = false;              ///< converged; false: the effort ended first
};

/// Upper bound of the GPU that any scheduler could allocate at once, on these nodes to these pods: each pod
/// on one node, a share on one device, whole devices as a whole.
///
/// Law      Never below the best possible allocation, whatever the floating-point errors. A linear program
///          only proposes prices (of pods, and of a node's CPU and memory). Prices are rounded to integers,
///          and any prices give a bound by weak duality: the requested pods at their prices, plus for each
///          node the most that its devices could earn beyond the prices. That maximum is exact, in integers,
///          for a node that is no smaller than the real one. Bad prices make the bound loose, never wrong.
/// Relaxed  why the bound exceeds the true maximum: a node's memory counts over all nodes of its group; CPU
///          is counted in steps of 1/64 node for each node (1/16 if shares have many sizes), and exactly over
///          its group; the number of pods on a node, topology, gangs as wholes and all Kubernetes rules
///          except the model are ignored; patterns may be mixed in fractions; more than kMostClasses classes
///          or kMostGroups groups are merged, with smaller pods and larger nodes.
/// Units    milli-GPU; CPU in milli-cores, memory in bytes as in pack.
/// Order    the same arguments give the same result if `stop` does.
/// Threads  any; reads only its arguments.
/// Cost     rounds * (groups * 64 * (classes * steps of a device + 64 * devices) + pivots * rows^2); bound_bench.cpp.
/// Source   Gilmore and Gomory, "A linear programming approach to the cutting-stock problem", 1961. The bound
///          in each round is the Lagrangian bound of Lübbecke and Desrosiers, "Selected topics in column
///          generation", 2005.
[[nodiscard]] Bound upper_bound(std::span<const NodeGroup> nodes, std::span<const Wanted> wanted,
                                const Effort& effort = {});

inline constexpr std::size_t kMostClasses = 256;
inline constexpr std::size_t kMostGroups = 64;

}  // namespace qm::placement::bound
