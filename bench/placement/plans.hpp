#pragma once
#include <cstddef>

namespace qm::bench {

/// A job of 2,000 GPUs where every GPU is taken by gangs of lower priority; racks of 32 nodes of eight GPUs, 16 racks a block.
void preempt(std::size_t nodes);

}  // namespace qm::bench
