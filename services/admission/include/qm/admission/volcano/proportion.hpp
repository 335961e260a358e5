#pragma once
#include "qm/admission/volcano/queues.hpp"

namespace qm::admission::volcano {

/// Shares a cluster out by weights: what each queue deserves of each resource.
///
/// As Volcano says it: repeat until nothing moves: deserved += remaining · weight / weights of the unmet; clip it to
/// min(request, real capability), then raise it to the guarantee; a queue is met when it has all it asks for or is not moved;
/// remaining -= what was given. As increments are in proportion to the weights of those that still take, resources do not
/// influence each other, and all rounds after the first come to one level λ that is found exactly instead:
///
///   deserved = min(limit, λ · weight),  limit = min(request, real capability)
///   real capability = min(capability, total - guarantees + its own guarantee)
///
/// A guarantee above the first round's share is given first and what is left is shared out on top, as above. Where that
/// would give out more than there is (Volcano's rounds do), the level falls until it fits:
/// deserved = max(guarantee, min(limit, λ · weight)).
///
/// Units    integers; λ · weight is rounded down, and units that this leaves over go one by one to the queue that is
///          furthest behind its weight, (what it got + 1) / weight least, then by name.
/// Law      the sum is at most the total (or the guarantees, if they are more); deserved is within capability and request
///          except for the guarantee; all is given out while somebody wants it; more weight never gives less.
/// Threads  any, once made.
/// Cost     O(resources · queues² ) at worst, by guarantees above the share; else O(resources · queues · log queues).
/// Source   Volcano, pkg/scheduler/plugins/proportion.
class Proportion {
 public:
  explicit Proportion(const Queues& queues);

  [[nodiscard]] const Resources& deserved(QueueId leaf) const { return deserved_[static_cast<std::size_t>(leaf)]; }
  [[nodiscard]] const Resources& real_capability(QueueId leaf) const { return real_[static_cast<std::size_t>(leaf)]; }

  /// The largest of allocated / deserved. Who has the smallest is served first.
  [[nodiscard]] Share share(const Queues& now, QueueId leaf) const;
  [[nodiscard]] bool before(const Queues& now, QueueId a, QueueId b) const;
  /// It has all that it deserves of everything.
  [[nodiscard]] bool overused(const Queues& now, QueueId leaf) const;
  /// The amounts fit into what it deserves, of what is asked for.
  [[nodiscard]] bool allocatable(const Queues& now, QueueId leaf, const Resources& amounts) const;
  [[nodiscard]] bool may_reclaim(const Queues& now, QueueId leaf, const Resources& need) const;
  /// Whether this may be taken from the queue for the need: they have a resource in common, the queue has more than it
  /// deserves of something, and keeps its guarantee. (Volcano asks besides that the queue has as much as one needy pod asks.)
  [[nodiscard]] bool gives(const Queues& now, QueueId from, const Resources& piece, QueueId to,
                           const Resources& need) const;

 private:
  std::vector<Resources> deserved_, real_;
};

}  // namespace qm::admission::volcano
