#pragma once
#include "qm/base/json.hpp"

#include <string>
#include <string_view>

namespace qm::placement {

/// On a node that Quartermaster cordoned: the causes. It distinguishes this cordon from one of any other client.
inline constexpr std::string_view kCordonedBy = "quartermaster.dev/cordoned-by";
inline constexpr std::string_view kNumaAnnotation =
    "quartermaster.dev/numa";  ///< on nodes: zones, and the kubelet's policy
inline constexpr std::string_view kSwitchesAnnotation =
    "quartermaster.dev/pcie-switches";  ///< on nodes: by GPU index, the switch that it is attached to: [0,0,1,1]
/// On a pod of a workload with several pod sets: the name of the pod's own set.
inline constexpr std::string_view kPodSetLabel = "kueue.x-k8s.io/podset";
/// On a pod of a gang: "rank=3 of=16 previous=NODE next=NODE", its neighbors in a ring.
inline constexpr std::string_view kRing = "quartermaster.dev/ring";
/// On a claim that waits for its first consumer: the node for which its volume is provisioned.
inline constexpr std::string_view kSelectedNode = "volume.kubernetes.io/selected-node";

/// The key of a claim, volume or class among the engine's rows.
[[nodiscard]] std::string storage_key(std::string_view kind, const Json& object);

}  // namespace qm::placement
