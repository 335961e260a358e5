#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/model/quantity.hpp"

#include <map>
#include <string>

namespace qm::config {

/// The request of a pod for each resource, as the API server stores it and the scheduler counts it
/// (qm/model/pod_resources.hpp).
///
/// Fails    kInvalid with the field inside the spec.
Result<std::map<std::string, Quantity>> requests_from_pod_spec(const Json& pod_spec);

}  // namespace qm::config
