#pragma once
#include <cstddef>

namespace qm::bench {

/// Preemption for a job of 2,000 GPUs in a fleet in which gangs of lower priority use every GPU; racks of 32 nodes of
/// eight GPUs, 16 racks a block.
void preempt(std::size_t nodes);

/// Defragmentation of a fleet of scattered pods, so that gangs of ten whole nodes are placed: the plan, its check,
/// its replay and the gangs.
void consolidate(std::size_t nodes);

}  // namespace qm::bench
