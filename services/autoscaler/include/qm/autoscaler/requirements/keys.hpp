#pragma once
#include <string>
#include <string_view>

namespace qm::autoscaler {

/// Label keys by the rules of Karpenter 1.14 and its AWS provider.
///
/// Source   pkg/apis/v1/labels.go of both.

inline constexpr std::string_view kRegion = "topology.kubernetes.io/region";
inline constexpr std::string_view kHostname = "kubernetes.io/hostname";

/// The key without its beta spelling: "beta.kubernetes.io/arch" is "kubernetes.io/arch".
[[nodiscard]] std::string normalized_key(std::string_view key);
/// Whether the cloud or Kubernetes sets the label on nodes, and Karpenter knows its values.
[[nodiscard]] bool is_well_known(std::string_view key);
/// Whether a NodePool may not have a requirement on the label: it is in a domain of Karpenter and not well known, it names
/// one node, or it names the NodePool itself.
[[nodiscard]] bool is_restricted(std::string_view key);
/// Whether the label is in the domain kubernetes.io or k8s.io, or within one. A kubelet may not set it on its own node, with
/// few exceptions: the autoscaler sets it when the node registers.
[[nodiscard]] bool is_kubernetes_label(std::string_view key);

/// "us-east-1" for the zone "us-east-1a"; empty if the zone is not named like a region with a letter.
[[nodiscard]] std::string region_of(const std::string& zone);

}  // namespace qm::autoscaler
