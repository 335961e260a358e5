#pragma once
#include "qm/placement/pack/node_state.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace qm::placement::bound {

/// Nodes that are alike: what each has for the pods in question, and how many there are.
struct NodeGroup {
  pack::NodeState node;
  std::int64_t count = 0;
};

/// A class of pods, and how many of it ask for a place.
struct Wanted {
  pack::PodClass pod;
  std::int64_t most = 0;   ///< ask
  std::int64_t least = 0;  ///< of these have a place in any allocation that counts; at most `most`
};

struct Effort {
  int rounds = 300;                 ///< at most
  double close = 0.0002;            ///< good enough: so near to the best that this relaxation could prove, of it
  std::function<bool()> stop = {};  ///< asked again and again; true = answer with what there is now
};

struct Bound {
  std::int64_t gpu_milli = 0;      ///< no allocation is larger
  std::vector<double> node_milli;  ///< by group: what one more such node would add to the bound, in milli-GPU
  std::vector<double> pod_milli;   ///< by class: what one more such pod would add; negative: what a `least` costs
  int rounds = 0;                  ///< of column generation
  bool close = false;              ///< stopped because it was good enough, not because of the effort's end
};

/// How much GPU any scheduler could have allocated at once: of these nodes, to these pods, each pod on one node, a share on one
/// device, whole devices whole.
///
/// Law      Never below the best allocation there is, whatever floating point does. A linear program only proposes prices (of pods,
///          and of a node's CPU and memory); prices are rounded to integers, and any prices give a bound by weak duality:
///          the pods that ask, at their prices, plus for each node the best that its devices could earn beyond the prices.
///          That best is found exactly, in integers, for a node that is no smaller than the real one. Bad prices make the
///          bound loose, never wrong.
/// Relaxed  what makes the bound larger than the truth: a node's memory counts over all nodes of its group; CPU is counted in
///          steps of 1/64 node for each node (1/16 where shares have many sizes), and exactly over its group; the number of pods on a node, topology, gangs
///          as wholes and every rule of Kubernetes but the model are left out; patterns may be mixed in fractions; more
///          than kMostClasses classes or kMostGroups groups are made alike, pods smaller and nodes larger.
/// Units    milli-GPU; CPU in milli-cores, memory in bytes as in pack.
/// Order    the same arguments give the same answer where `stop` does.
/// Threads  any; reads only its arguments.
/// Cost     rounds * (groups * 64 * (classes * steps of a device + 64 * devices) + pivots * rows^2); bound_bench.cpp.
/// Source   Gilmore and Gomory, "A linear programming approach to the cutting-stock problem", 1961; the bound in each round is
///          Lagrange's, as in Lübbecke and Desrosiers, "Selected topics in column generation", 2005.
[[nodiscard]] Bound upper_bound(std::span<const NodeGroup> nodes, std::span<const Wanted> wanted,
                                const Effort& effort = {});

inline constexpr std::size_t kMostClasses = 256;
inline constexpr std::size_t kMostGroups = 64;

}  // namespace qm::placement::bound
