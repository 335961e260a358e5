#pragma once
#include "qm/base/json.hpp"
#include "qm/model/ids.hpp"
#include "qm/model/resources.hpp"

#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// The rules of a pod or of a pod template that the engine uses, as kube_rules::text_of: labels, required node affinity
/// and required anti-affinity by host. Empty if there is none of the last two.
///
/// A selector with an operator that Kubernetes does not have selects nothing.
[[nodiscard]] std::string rules_of_pod(const Namespace& ns, const Json& pod);

/// The items of a list of texts.
[[nodiscard]] std::vector<std::string> texts_of(const Json& list);

/// A metav1.LabelSelector; none if it is not an object, or has an operator that Kubernetes does not have.
[[nodiscard]] std::optional<LabelSelector> label_selector(const Json& from);

}  // namespace qm::autoscaler
