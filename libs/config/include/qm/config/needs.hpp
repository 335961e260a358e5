#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/catalog/share.hpp"

#include <optional>

namespace qm::config {

/// What a pod, or a pod template, asks for by what it needs: its annotations quartermaster.dev/gpu-memory and gpu-sms, on the
/// GPUs that its node selector or required affinity is for. None where it states no need. Whoever reads pods counts this
/// much for them, whether or not a container says it already, as one does that the webhook has seen.
///
/// Fails    kInvalid as catalog::need_of and share_of, and where containers ask for other GPUs beside it; `field` is the
///          annotation's path in the pod.
Result<std::optional<catalog::Share>> share_of_pod(const Json& pod);

/// What a pod asks for: shape_from_pod_spec of its spec, with what its needs come to.
///
/// Fails    kInvalid with the field in the pod.
Result<PodShape> shape_from_pod(const Json& pod);
/// The same for whoever counts what is taken: needs that come to nothing take nothing away from what the containers ask for.
Result<PodShape> shape_held_by(const Json& pod);

}  // namespace qm::config
