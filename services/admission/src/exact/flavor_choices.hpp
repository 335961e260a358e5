#pragma once
#include "qm/admission/exact/work.hpp"

#include <vector>

namespace qm::admission::exact {

/// One choice that is free: the flavor of a resource group for a pod set, or for all pod sets that have theirs in common.
struct FlavorOptions {
  std::vector<std::size_t> sets;
  const QueueRules::Group* group = nullptr;
  std::size_t option = 0;
};

/// All that a workload asks for, `least` options and more to choose from.
[[nodiscard]] std::vector<FlavorOptions> choices_of(const QueueRules& rules, const Work& work, std::size_t least);
/// The next combination, the last choice running fastest; false after the last one.
[[nodiscard]] bool advance(std::vector<FlavorOptions>& choices);

}  // namespace qm::admission::exact
