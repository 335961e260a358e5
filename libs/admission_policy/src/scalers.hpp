#pragma once
#include "qm/admission_policy/policy.hpp"

namespace qm::admission_policy {

/// A HorizontalPodAutoscaler or ScaledObject that a user creates or updates. Its target has the annotation: then it is
/// suspended, and Quartermaster sets the replicas.
[[nodiscard]] Json mutate_scaler(const Subject& subject, const View& view);
/// A second scaler of a target that is strict is refused.
void check_scaler(const Subject& subject, const View& view, Verdict& out);

}  // namespace qm::admission_policy
