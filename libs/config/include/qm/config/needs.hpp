#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/catalog/share.hpp"

#include <optional>

namespace qm::config {

/// The resource request that a pod's or a pod template's need results in: annotations quartermaster.dev/gpu-memory
/// and gpu-sms, on the GPUs of its node selector or required affinity. None if it specifies no need. Callers that
/// count pods use this amount, whether or not a container already requests it, as after the webhook's mutation.
///
/// Fails    kInvalid as catalog::need_of and share_of, and if containers also request other GPUs; `field` is the
///          path of the annotation in the pod.
Result<std::optional<catalog::Share>> share_of_pod(const Json& pod);

/// The requests of a pod: shape_from_pod_spec of its spec, with the requests of its needs.
///
/// Fails    kInvalid with the field in the pod.
Result<PodShape> shape_from_pod(const Json& pod);
/// The same for callers that count usage: an invalid need does not change the requests of the containers, and those of
/// a pod that is resized in place count as in requests_from_pod.
Result<PodShape> shape_held_by(const Json& pod);

}  // namespace qm::config
