#pragma once
#include "qm/admission/volcano/capacity.hpp"
#include "qm/admission/volcano/proportion.hpp"

#include <vector>

namespace qm::admission::volcano {

/// A running job, or the part of it that can be evicted alone (the spare pods of a gang).
struct Running {
  QueueId queue = 0;
  Candidate piece;
  bool preemptable = true;
};

/// Victims, as indexes into the list of running jobs. Empty: none, and the need is not met.
using Reclaimed = std::vector<std::size_t>;

/// Reclaims from other queues what they have beyond their share.
///
/// The queues are considered one after the other: the closest in the tree first, then the one that is served last. Each
/// chooses victims by its own policy for the remaining need, or all possible victims if these do not suffice. A victim
/// is chosen only as long as the rule allows it. Queues that are not reclaimable, and jobs or queues that are not
/// preemptable, have no victims.
///
/// Law      the need beyond idle resources is met or there are no victims; the rule holds after each victim.
/// Order    that of the queues and policies; never the position in the list.
/// Cost     O(queues · policy). Threads  any.
/// Source   Volcano, pkg/scheduler/actions/reclaim and gangreclaim.
[[nodiscard]] Reclaimed reclaim(const Proportion& rule, Queues now, const std::vector<Running>& running, QueueId to,
                                const Resources& need, const Resources& idle);
[[nodiscard]] Reclaimed reclaim(const Capacity& rule, Queues now, const std::vector<Running>& running, QueueId to,
                                const Resources& need, const Resources& idle);

/// Preempts jobs of lower priority in the same queue, by the policy of the queue.
/// Source   Volcano, pkg/scheduler/actions/preempt; rows S-107 and S-108 of the coverage table.
[[nodiscard]] Reclaimed preempt(const Queues& now, const std::vector<Running>& running, QueueId queue,
                                std::int32_t priority, const Resources& need, const Resources& idle);

}  // namespace qm::admission::volcano
