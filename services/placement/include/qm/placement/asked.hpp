#pragma once
#include "qm/placement/policy.hpp"

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace qm::placement {

/// All that a gang asks for: equal ones get equal answers.
struct Asked {
  std::vector<PodSet> pod_sets;
  std::vector<std::string> rules;  ///< by pod set, as PodFacts has them; or none
  std::uint32_t type = 0;          ///< its bit in Room::types
  GpuPool pool = GpuPool::kAny;
  friend auto operator<=>(const Asked&, const Asked&) = default;
};

}  // namespace qm::placement
