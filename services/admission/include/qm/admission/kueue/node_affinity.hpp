#pragma once
#include "qm/kube_rules/node_selector.hpp"

#include <string_view>

namespace qm::admission::kueue {

/// The node affinity in the JSON of a pod. No rules if it has none, or if the text is not JSON.
[[nodiscard]] kube_rules::NodeConstraints node_affinity_of(std::string_view pod);

}  // namespace qm::admission::kueue
