#pragma once
#include "qm/admission/kueue/work.hpp"

#include <vector>

namespace qm::admission::kueue {

/// One free choice: the flavor of a resource group for a pod set, or for all pod sets that share it.
struct FlavorOptions {
  std::vector<std::size_t> sets;
  const QueueRules::Group* group = nullptr;
  std::size_t option = 0;
};

/// All choices for the requests of a workload with at least `least` options.
[[nodiscard]] std::vector<FlavorOptions> choices_of(const QueueRules& rules, const Work& work, std::size_t least);
/// Advances to the next combination, the last choice fastest; false after the last one.
[[nodiscard]] bool advance(std::vector<FlavorOptions>& choices);

}  // namespace qm::admission::kueue
