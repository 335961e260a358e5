#pragma once
#include "qm/base/json.hpp"
#include "qm/model/resources.hpp"

#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// The items of a list of texts.
[[nodiscard]] std::vector<std::string> texts_of(const Json& list);

/// A metav1.LabelSelector; none if it is not an object, or has an operator that Kubernetes does not have.
[[nodiscard]] std::optional<LabelSelector> label_selector(const Json& from);

}  // namespace qm::autoscaler
