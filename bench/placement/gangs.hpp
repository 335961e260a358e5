#pragma once
#include <cstddef>
#include <string>

namespace qm::bench {

/// Gangs in a nearly full fleet of racks of 32 nodes and blocks of 16 racks, in which gangs end and start; each node
/// has eight GPUs.
void gangs(const std::string& policy, std::size_t nodes);

}  // namespace qm::bench
