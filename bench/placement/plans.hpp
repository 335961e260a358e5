#pragma once
#include <cstddef>

namespace qm::bench {

/// A job of 2,000 GPUs where every GPU is taken by gangs of lower priority; racks of 32 nodes of eight GPUs, 16 racks
/// a block.
void preempt(std::size_t nodes);

/// Nodes won back in a fleet of scattered pods, so that gangs of ten whole nodes are placed: the plan, its check, its
/// replay and the gangs.
void consolidate(std::size_t nodes);

}  // namespace qm::bench
