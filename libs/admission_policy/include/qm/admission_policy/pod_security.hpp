#pragma once
#include "qm/admission_policy/policy.hpp"

#include <optional>
#include <string_view>
#include <vector>

namespace qm::admission_policy {

/// The Pod Security Standards, as a namespace enforces them by the label pod-security.kubernetes.io/enforce.
enum class PodSecurity { kPrivileged, kBaseline, kRestricted };
[[nodiscard]] std::optional<PodSecurity> pod_security_of(std::string_view word);

/// What the API server would refuse in a pod; one finding per rule and place, with the field. Linux pods;
/// annotations are not checked. Source: the checks of kube-apiserver 1.36; a test compares with them.
[[nodiscard]] std::vector<Finding> pod_security_findings(const Json& pod_spec, PodSecurity level);

}  // namespace qm::admission_policy
