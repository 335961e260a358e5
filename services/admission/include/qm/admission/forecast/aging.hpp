#pragma once
#include "qm/base/time.hpp"

#include <cstdint>
#include <optional>

namespace qm::admission::forecast {

/// Raises the priority of pending workloads with age, so that none starves: newer workloads of its queue pass a
/// class of workloads no longer than `bound`.
///
/// Formula  priority(waited) = base + floor((ceiling - base) · min(waited, bound) / bound). If `ceiling` is not
///          below any priority of the queue, a workload that waited `bound` is ahead of all later ones. A base
///          above the ceiling is kept. From then on the workload is overdue: it blocks its queue as the head of a
///          StrictFIFO queue does.
/// Law      Two workloads of one class never swap their order. After `bound` no later workload starts before it,
///          whether or not it fits. Assume a queue that starts its first workload whenever that fits, and has quota
///          for any one of its workloads when empty. Assume no run time above R. Then the wait is at most bound +
///          (m + 1) · R, with m pending workloads ahead of it at that time.
/// Threads  any; a value.
/// Cost     O(1).
/// Source   aging of priorities (Silberschatz); blocking the rest: Volcano, docs/design/sla-plugin.md.
struct Aging {
  Duration bound = std::chrono::hours(24 * 7);
  std::int32_t ceiling = 0;

  [[nodiscard]] std::int32_t priority(std::int32_t base, Duration waited) const;
  [[nodiscard]] bool overdue(Duration waited) const { return waited >= bound; }
  /// The waited time at which its priority next rises, or it becomes overdue; empty once it is overdue.
  [[nodiscard]] std::optional<Duration> next_change(std::int32_t base, Duration waited) const;
  friend bool operator==(const Aging&, const Aging&) = default;
};

}  // namespace qm::admission::forecast
