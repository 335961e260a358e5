#pragma once
#include <cstddef>
#include <string>

namespace qm::bench {

/// Gangs in a fleet of racks of 32 nodes and blocks of 16 racks that is nearly full and turns over; each node has
/// eight GPUs.
void gangs(const std::string& policy, std::size_t nodes);

}  // namespace qm::bench
