#pragma once
#include "qm/topology/rules.hpp"

#include <string_view>

namespace qm::admission::kueue {

/// The node affinity in the JSON of a pod. No rules if it has none, or if the text is not JSON.
[[nodiscard]] topology::PodRules node_affinity_of(std::string_view pod);

}  // namespace qm::admission::kueue
