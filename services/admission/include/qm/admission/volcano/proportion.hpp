#pragma once
#include "qm/admission/volcano/queues.hpp"

namespace qm::admission::volcano {

/// Shares a cluster out by weights: the amount of each resource that each queue deserves.
///
/// Volcano's definition: repeat until nothing changes: deserved += remaining · weight / weights of the unmet; clip
/// it to min(request, real capability), then raise it to the guarantee; a queue is met when it has all it requests
/// or does not change; remaining -= what was given. Increments are in proportion to the weights of the unmet
/// queues, so resources are independent of each other. All rounds after the first converge to one level λ, which is
/// computed exactly instead:
///
///   deserved = min(limit, λ · weight),  limit = min(request, real capability)
///   real capability = min(capability, total - guarantees + its own guarantee)
///
/// A guarantee above the share of the first round is given first; the rest is shared out on top, as above. Where that
/// would give out more than exists (Volcano's rounds do), the level is lowered until it fits:
/// deserved = max(guarantee, min(limit, λ · weight)).
///
/// Units    integers; λ · weight is rounded down. Remaining units go one by one to the queue that is furthest
///          behind its weight. This is the queue with the smallest (amount + 1) / weight, then by name.
/// Law      the sum is at most the total (or the guarantees, if they are more); deserved is within capability and
///          request except for the guarantee; everything is given out while a request is unmet; more weight never
///          gives less.
/// Threads  any, once built.
/// Cost     O(resources · queues² ) at worst, with guarantees above the share; otherwise O(resources · queues · log
///          queues).
/// Source   Volcano, pkg/scheduler/plugins/proportion.
class Proportion {
 public:
  explicit Proportion(const Queues& queues);

  [[nodiscard]] const Resources& deserved(QueueId leaf) const { return deserved_[static_cast<std::size_t>(leaf)]; }
  [[nodiscard]] const Resources& real_capability(QueueId leaf) const { return real_[static_cast<std::size_t>(leaf)]; }

  /// The largest of allocated / deserved. The queue with the smallest is served first.
  [[nodiscard]] Share share(const Queues& now, QueueId leaf) const;
  [[nodiscard]] bool before(const Queues& now, QueueId a, QueueId b) const;
  /// The amounts fit what the queue deserves, for the requested resources.
  [[nodiscard]] bool allocatable(const Queues& now, QueueId leaf, const Resources& amounts) const;
  [[nodiscard]] bool may_reclaim(const Queues& now, QueueId leaf, const Resources& need) const;
  /// Whether the piece may be reclaimed from the queue for the need: they have a resource in common, and the queue
  /// has more than it deserves of some resource and keeps its guarantee. (Volcano also requires that the queue has
  /// as much as one requesting pod.)
  [[nodiscard]] bool gives(const Queues& now, QueueId from, const Resources& piece, QueueId to,
                           const Resources& need) const;

 private:
  std::vector<Resources> deserved_, real_;
};

}  // namespace qm::admission::volcano
