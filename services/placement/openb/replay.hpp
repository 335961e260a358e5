#pragma once
#include "trace.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace qm::placement::openb {

/// One whole per cent of arrived demand: means over all arrivals that fall to it, in per cent.
struct Point {
  double allocated = 0;       ///< of all GPUs
  double fragment_total = 0;  ///< fragment, of all GPUs
  double fragment_idle = 0;   ///< fragment, of the idle GPUs
};
using Curve = std::map<int, Point>;

/// The pods that come, in their order, as replay() draws them.
[[nodiscard]] std::vector<pack::PodClass> arrivals_of(const Trace& trace, std::uint64_t seed, double arrivals);

/// Fills the cluster as the FGD paper does: pods are shuffled, then drawn with replacement until they ask for
/// `arrivals` times the GPUs there are (or taken out where the trace asks for more); they come one after the other and never
/// end; who fits nowhere is gone. Ties go by one order of the nodes for each seed. The fragment is measured by the classes of
/// the whole trace, whatever the policy goes by.
///
/// The same seed draws what it draws in the paper's program, so seeds 42 to 51 are the published runs themselves: bestfit,
/// dotprod, clustering and packing end in the very figures. Fgd comes close: there its scores are of floating point, and of
/// devices that are equally good the one with the lowest number is taken, which states do not have. So does random: its program
/// looks at nodes on several threads, and draws by the order in which they are done.
///
/// `policy` is a name of pack::policy_names(), or "random".
[[nodiscard]] Curve replay(const Trace& trace, const std::string& policy, std::uint64_t seed, double arrivals);

}  // namespace qm::placement::openb
