#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/model/quantity.hpp"

#include <map>
#include <string>

namespace qm::config {

/// What a pod asks of each resource, as the scheduler counts it: containers together, an init container with the sidecars
/// before it, what is asked for the pod as a whole, and its overhead.
///
/// Fails    kInvalid with the field inside the spec.
Result<std::map<std::string, Quantity>> requests_from_pod_spec(const Json& pod_spec);

}  // namespace qm::config
