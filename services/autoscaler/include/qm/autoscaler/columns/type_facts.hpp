#pragma once
#include "qm/autoscaler/requirements/requirement.hpp"
#include "qm/catalog/catalog.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace qm::autoscaler {

/// The labels of a node of the instance type, each as In with its value; DoesNotExist where the node lacks the label.
///
/// A key that is not defined is set by the offering (zone, capacity type, NodePool), or is not supported.
/// Source   the well-known labels of Karpenter's AWS provider 1.14, and the GPU labels of GPU Feature Discovery.
[[nodiscard]] Requirements node_labels(const catalog::Type& type);

/// Whether a requirement of a NodePool on the key acts: a label of node_labels, one of the offering, or a user's own.
[[nodiscard]] bool is_supported(const std::string& key);

/// Amounts of a node of the type: CPU in milli-cores, memory in bytes, other resources in their own units.
using Amounts = std::map<std::string, std::int64_t>;
struct NodeAmounts {
  Amounts capacity;     ///< what the limits of a NodePool count
  Amounts allocatable;  ///< without the reservations of kubelet and the eviction threshold
};
/// The estimate before the first node of the type exists.
///
/// Memory   7.5 % less than advertised for the virtual machine, and 64 MiB less on arm64; reserved 255 MiB + 11 MiB for
///          each pod, and 100 MiB for the eviction threshold.
/// CPU      reserved 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the others.
/// Pods     the network addresses of the type; without a figure the 110 of the kubelet.
/// Source   pkg/providers/instancetype/types.go of Karpenter's AWS provider 1.14.
[[nodiscard]] NodeAmounts node_amounts(const catalog::Type& type);

}  // namespace qm::autoscaler
