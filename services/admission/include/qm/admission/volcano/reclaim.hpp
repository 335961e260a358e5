#pragma once
#include "qm/admission/volcano/capacity.hpp"
#include "qm/admission/volcano/proportion.hpp"

#include <vector>

namespace qm::admission::volcano {

/// A running job, or what of it can go alone (the spare pods of a gang).
struct Running {
  QueueId queue = 0;
  Candidate piece;
  bool preemptable = true;
};

/// Who gives way: places in the list of what runs. Empty: nobody, and the need is not met.
using Takings = std::vector<std::size_t>;

/// From other queues, what they have beyond their share.
///
/// The queues are asked one after the other: the closest in the tree first, then who is served last. Each names its victims
/// by its own policy, for what is still needed, or all it can give where that is not enough; and gives them as long as the
/// rule lets it. Queues that are not reclaimable, and jobs or queues that are not preemptable, give nothing.
///
/// Law      the need beyond what is idle is met or nobody goes; the rule holds after each victim.
/// Order    that of the queues and policies; never the place in the list.
/// Cost     O(queues · policy). Threads  any.
/// Source   Volcano, pkg/scheduler/actions/reclaim and gangreclaim.
[[nodiscard]] Takings reclaim(const Proportion& rule, Queues now, const std::vector<Running>& running, QueueId to,
                              const Resources& need, const Resources& idle);
[[nodiscard]] Takings reclaim(const Capacity& rule, Queues now, const std::vector<Running>& running, QueueId to,
                              const Resources& need, const Resources& idle);

/// From jobs of lower priority in the same queue, by the queue's policy.
/// Source   Volcano, pkg/scheduler/actions/preempt; rows S-107 and S-108 of the coverage table.
[[nodiscard]] Takings preempt(const Queues& now, const std::vector<Running>& running, QueueId queue,
                              std::int32_t priority, const Resources& need, const Resources& idle);

}  // namespace qm::admission::volcano
