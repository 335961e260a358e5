#pragma once
#include "qm/base/json.hpp"
#include "qm/model/ids.hpp"

#include <string>

namespace qm::autoscaler {

/// The rules of a pod or of a pod template that the engine uses, as kube_rules::text_of: labels, required node affinity
/// and required anti-affinity by host. Empty if there is none of the last two.
///
/// A selector with an operator that Kubernetes does not have selects nothing.
[[nodiscard]] std::string rules_of_pod(const Namespace& ns, const Json& pod);

}  // namespace qm::autoscaler
