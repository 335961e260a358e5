#pragma once
#include "qm/cloud/outside.hpp"

#include <string>

namespace qm::cloud {

/// Sets empty members to the real implementation: pooled HTTP connections, the steady and the wall clock, a seeded
/// random generator.
[[nodiscard]] Outside with_defaults(Outside outside, std::string ca_file);

}  // namespace qm::cloud
