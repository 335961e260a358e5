#pragma once
#include "qm/base/time.hpp"

#include <cstdint>
#include <optional>

namespace qm::admission::forecast {

/// Who waits rises, so that nobody is passed for ever: a class of workloads is passed by newer ones of its queue no longer than
/// `bound`.
///
/// Formula  priority(waited) = base + floor((ceiling - base) · min(waited, bound) / bound). With `ceiling` not below any
///          priority of the queue, who has waited for `bound` stands before all that came after it. A base above the ceiling stays.
///          From then on it is overdue: it holds up its queue as the head of one in strict order does.
/// Law      Two of one class never change places. After `bound` nobody who came later starts before it, whether or not
///          it fits. In a queue that starts its first whenever that fits, in which nobody runs longer than R and which could
///          hold any one of its workloads when empty, it waits at most bound + (m + 1) · R, m being those that are before it and
///          wait then.
/// Threads  any; a value.
/// Cost     O(1).
/// Source   ageing of priorities (Silberschatz); holding up the rest: Volcano, docs/design/sla-plugin.md.
struct Ageing {
  Duration bound = std::chrono::hours(24 * 7);
  std::int32_t ceiling = 0;

  [[nodiscard]] std::int32_t priority(std::int32_t base, Duration waited) const;
  [[nodiscard]] bool overdue(Duration waited) const { return waited >= bound; }
  /// How long it has waited when its priority next rises, or it becomes overdue; nothing once it is.
  [[nodiscard]] std::optional<Duration> next_change(std::int32_t base, Duration waited) const;
  friend bool operator==(const Ageing&, const Ageing&) = default;
};

}  // namespace qm::admission::forecast
