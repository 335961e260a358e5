#pragma once
#include "qm/placement/model.hpp"

#include <tuple>

namespace qm::placement {

/// A total order. Of simultaneous requests the one that admission decided first comes first: it may have
/// preempted others for its quota. If a later one used its nodes, that one would be preempted again.
struct QueuePosition {
  std::int32_t priority;
  bool grows;  // it is running and scales up
  Instant since;
  Instant reserved;
  std::int32_t queue_position;
  WorkloadUid uid;
  friend bool operator<(const QueuePosition& a, const QueuePosition& b) {
    return std::tie(b.priority, a.grows, a.since, a.reserved, a.queue_position, a.uid) <
           std::tie(a.priority, b.grows, b.since, b.reserved, b.queue_position, b.uid);
  }
};

}  // namespace qm::placement
