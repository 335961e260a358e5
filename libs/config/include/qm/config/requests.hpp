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

/// The requests of a pod on its node. While it is resized in place, the larger of the new, the actual and the allocated
/// amount counts; if the resize is infeasible, the new one does not.
///
/// Fails    as requests_from_pod_spec.
/// Source   component-helpers/resource/helpers.go of Kubernetes 1.36, PodRequests with UseStatusResources.
Result<std::map<std::string, Quantity>> requests_from_pod(const Json& pod);

}  // namespace qm::config
