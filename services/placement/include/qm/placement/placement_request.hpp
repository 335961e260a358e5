#pragma once
#include "qm/placement/policy.hpp"

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace qm::placement {

/// A claim that Kubernetes creates for a pod and a volume of its template.
struct PodClaim {
  std::string volume, name, pod_uid;
  friend auto operator<=>(const PodClaim&, const PodClaim&) = default;
};

/// A claim that pods on a node use. The driver of an unknown claim follows from its class.
struct ClaimUse {
  std::string claim;  ///< NAMESPACE/NAME, or a unique name if the claim has no name yet
  std::optional<std::string> storage_class;
  friend auto operator<=>(const ClaimUse&, const ClaimUse&) = default;
};

/// A placement request of a gang. Equal requests get equal results.
struct PlacementRequest {
  std::vector<PodSet> pod_sets;
  std::vector<std::string> rules{};  ///< by pod set, in the format of PodFacts::rules; or empty
  std::uint32_t type = 0;            ///< its bit in NodeCapacity::types
  GpuPool pool = GpuPool::kAny;
  /// By pod set: claims of single pods that are not bound to a node; or empty.
  std::vector<std::vector<PodClaim>> own_claims{};
  friend auto operator<=>(const PlacementRequest&, const PlacementRequest&) = default;
};

}  // namespace qm::placement
