#pragma once
#include "qm/admission/volcano/queues.hpp"

namespace qm::admission::volcano {

/// Queues with configured shares: guarantee ≤ deserved ≤ capability, on each level of a tree.
///
/// real capability = min(capability, real capability of the parent - guarantees of its children + its own
///                   guarantee); an unset capability is that of the parent; the root has the total, and limits
///                   nothing itself.
/// deserved        = as configured, at most the real capability, at least the guarantee.
/// share           = the largest of allocated / deserved; 1 where nothing is deserved.
///
/// A queue may reclaim if it is open, stays within its real capability, and stays within its deserved amount of at
/// least one requested resource; or if an ancestor up to `ancestor_levels` does. A victim has a resource in common
/// with the need and leaves its queue the guarantee. Its queue deserves nothing of what the victim has, or has more
/// than it deserves of some of it. With ancestor levels the same holds for each ancestor of the victim's queue, up
/// to that level, that the reclaimer does not share. One case is excluded while both queues are below one ancestor: a
/// queue that deserves nothing of what it needs reclaims nothing from a queue that deserves nothing of what it has.
///
/// Order    higher priority, then smaller share where the branches part; ties: queues with a deserved amount, then the
///          name.
/// Law      no reclaim lowers a queue below its guarantee or raises a reclaimer above its capability.
/// Threads  any, once built. Cost  O(depth · resources) per call.
/// Source   Volcano, pkg/scheduler/plugins/capacity. In a tree Volcano does not bound the root; here it is as without a
///          tree.
class Capacity {
 public:
  explicit Capacity(const Queues& queues, int ancestor_levels = 0);

  [[nodiscard]] const Resources& deserved(QueueId q) const { return deserved_[static_cast<std::size_t>(q)]; }
  [[nodiscard]] const Resources& real_capability(QueueId q) const { return real_[static_cast<std::size_t>(q)]; }

  [[nodiscard]] Share share(const Queues& now, QueueId q) const;
  [[nodiscard]] bool before(const Queues& now, QueueId a, QueueId b) const;
  /// The amounts fit the queue and all its ancestors but the root. Whether they are idle is not checked.
  [[nodiscard]] bool allocatable(const Queues& now, QueueId leaf, const Resources& amounts) const;
  /// Resources that block the enqueue of a job: allocated + inqueue + least > real capability, on some level.
  [[nodiscard]] std::vector<std::size_t> insufficient_resources(const Queues& now, QueueId leaf,
                                                                const Resources& least) const;
  [[nodiscard]] bool may_reclaim(const Queues& now, QueueId leaf, const Resources& need) const;
  [[nodiscard]] bool gives(const Queues& now, QueueId from, const Resources& piece, QueueId to,
                           const Resources& need) const;

 private:
  [[nodiscard]] bool has_too_much(const Queues& now, QueueId q, const Resources& piece) const;
  int levels_;
  std::vector<Resources> deserved_, real_;
};

}  // namespace qm::admission::volcano
