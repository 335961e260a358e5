#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"

#include <string>
#include <string_view>

namespace qm::config {

/// Applies a RuntimeClass to a pod spec as the API server does: adds the nodeSelector of its `scheduling` to
/// that of the pod, and the tolerations that the pod lacks.
///
/// Fails   kInvalid, with the field below `path` and the remedy: both selectors have a key, with different values.
///         The API server refuses such pods. The pod spec remains unchanged.
/// Cost    for tolerations, the product of the lengths of both lists.
/// Source  Kubernetes, plugin/pkg/admission/runtimeclass.
[[nodiscard]] Status merge_scheduling(Json& pod_spec, const Json& scheduling, std::string_view runtime_class,
                                      std::string_view path);

}  // namespace qm::config
