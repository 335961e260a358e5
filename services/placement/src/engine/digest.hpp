#pragma once
#include "qm/placement/commands.hpp"

#include <cstdint>

namespace qm::placement {

/// Digest of all rows, to compare two histories. One pass over the tables.
[[nodiscard]] std::uint64_t digest_of(const Tables& tables);

}  // namespace qm::placement
