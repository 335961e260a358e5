#pragma once
#include "qm/autoscaler/replicas/hpa.hpp"
#include "qm/autoscaler/replicas/scaled_object.hpp"
#include "qm/base/json.hpp"

#include <map>
#include <string>

namespace qm::autoscaler::replicas {

struct HpaManifest {
  HpaSpec spec;
  std::map<std::string, Condition> conditions;  ///< of its status
};

/// Reads a HorizontalPodAutoscaler of autoscaling/v2, with the defaults of the API.
///
/// A metric of an unknown type is kept as invalid. Selectors of metrics are not read: the readings of a metric are those
/// that its selector matches.
///
/// Fails    kInvalid names the field, with its path, and the remedy; an unknown field is an error.
[[nodiscard]] Result<HpaManifest> read_hpa(const Json& object);

/// Reads a ScaledObject of keda.sh/v1alpha1, with the defaults of its kind and of its triggers.
///
/// Fails    kInvalid as read_hpa(); also a trigger of another type, and an unknown or unsupported field of one.
[[nodiscard]] Result<ScaledObject> read_scaled_object(const Json& object);

/// Reads metadata.annotations of a ScaledObject. A value that is not a boolean pauses, as in KEDA.
///
/// Fails    kInvalid: paused-replicas is not a number from 0.
[[nodiscard]] Result<ScalingAnnotations> read_annotations(const Json& annotations);

}  // namespace qm::autoscaler::replicas
