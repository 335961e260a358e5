#pragma once
#include "trace.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace qm::placement::openb {

/// One whole percent of arrived demand: means over all arrivals in it, in percent.
struct Point {
  double allocated = 0;       ///< of all GPUs
  double fragment_total = 0;  ///< fragment, of all GPUs
  double fragment_idle = 0;   ///< fragment, of the idle GPUs
};
using Curve = std::map<int, Point>;

/// The pods that arrive, in order, as replay() draws them.
[[nodiscard]] std::vector<pack::PodClass> arrivals_of(const Trace& trace, std::uint64_t seed, double arrivals);

/// Fills the cluster as the FGD paper does. Pods are shuffled, then drawn with replacement until
/// they request `arrivals` times the GPUs of the cluster (or removed if the trace requests more).
/// They arrive one after the other and never finish; a pod that fits nowhere is dropped. Ties are
/// decided by one order of the nodes for each seed. The fragment is measured by the classes of the
/// whole trace, whatever mix the policy uses.
///
/// The same seed draws the same numbers as in the paper's program, so seeds 42 to 51 are the
/// published runs themselves: bestfit, dotprod, clustering and packing reproduce the exact figures.
/// fgd comes close: there its scores are floating-point numbers, and among equally good devices the
/// one with the lowest index is used, which states do not have. random comes close, too: the
/// paper's program scans nodes on several threads, and draws in the order in which they finish.
///
/// `policy` is a name of pack::policy_names(), or "random".
[[nodiscard]] Curve replay(const Trace& trace, const std::string& policy, std::uint64_t seed, double arrivals);

}  // namespace qm::placement::openb
