#pragma once
#include "qm/cloud/aws.hpp"

#include <string>

namespace qm::cloud {

/// Fills what is left empty with the real thing: pooled HTTP connections, the steady and the wall clock, a seeded
/// generator.
[[nodiscard]] Outside with_defaults(Outside outside, std::string ca_file);

}  // namespace qm::cloud
