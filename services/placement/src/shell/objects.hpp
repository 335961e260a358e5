#pragma once
#include <string_view>

namespace qm::placement {

/// On a node that we cordoned: for which causes. It tells our cordon from anybody else's.
inline constexpr std::string_view kCordonedBy = "quartermaster.dev/cordoned-by";
inline constexpr std::string_view kNumaAnnotation =
    "quartermaster.dev/numa";  ///< on nodes: zones, and the kubelet's policy
/// On a pod of a workload with several pod sets: the name of its own.
inline constexpr std::string_view kPodSetLabel = "kueue.x-k8s.io/podset";

}  // namespace qm::placement
