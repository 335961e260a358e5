#pragma once
#include "qm/model/resources.hpp"

#include <array>
#include <string_view>

namespace qm::words {

/// Metadata that Quartermaster writes and trusts when it reads it back. Another author of it could choose
/// the workload, the reservation or the GPUs of a pod. The admission webhook and the chart's
/// ValidatingAdmissionPolicy refuse it from any other account; Submit refuses it in its input.

/// Annotations of pods and of pod templates.
inline constexpr std::array<std::string_view, 7> kOwnedPodAnnotations{kAttempt,
                                                                      kReservation,
                                                                      kDevices,
                                                                      kResume,
                                                                      "quartermaster.dev/workload",
                                                                      "quartermaster.dev/index",
                                                                      "quartermaster.dev/ring"};
/// Annotations of objects that have pod templates.
inline constexpr std::array<std::string_view, 3> kOwnedObjectAnnotations{
    "quartermaster.dev/submission", "quartermaster.dev/parallelism", "quartermaster.dev/added-to-pods"};
/// A label of all of them: a workload that no admission service manages.
inline constexpr std::string_view kOwnedLabel = "quartermaster.dev/unadmitted";

}  // namespace qm::words
