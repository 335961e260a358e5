#pragma once
#include "qm/placement/policy.hpp"

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace qm::placement {

/// A claim that is made for a pod and a volume of its template.
struct PodClaim {
  std::string volume, name, pod_uid;
  friend auto operator<=>(const PodClaim&, const PodClaim&) = default;
};

/// A claim that pods on some node use. Of a claim that is not known its class says the driver.
struct ClaimUse {
  std::string claim;  ///< NAMESPACE/NAME, or any name that no other claim has
  std::optional<std::string> storage_class;
  friend auto operator<=>(const ClaimUse&, const ClaimUse&) = default;
};

/// All that a gang asks for: equal ones get equal answers.
struct Asked {
  std::vector<PodSet> pod_sets;
  std::vector<std::string> rules{};  ///< by pod set, as PodFacts has them; or none
  std::uint32_t type = 0;            ///< its bit in Room::types
  GpuPool pool = GpuPool::kAny;
  std::vector<std::vector<PodClaim>>
      own_claims{};  ///< by pod set: that pods of it without a node have each for itself; or none
  friend auto operator<=>(const Asked&, const Asked&) = default;
};

}  // namespace qm::placement
