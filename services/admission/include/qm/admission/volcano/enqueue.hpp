#pragma once
#include "qm/admission/volcano/resources.hpp"
#include "qm/base/time.hpp"

#include <map>
#include <optional>
#include <span>
#include <vector>

namespace qm::admission::volcano {

/// Limit on the waiting time of a job. After it the job is enqueued regardless of capacity, and idle resources are kept
/// for it.
///
/// Order    jobs with a limit before jobs without, then the earlier deadline.
/// Law      while a job is overdue, idle resources that it needs go to no job behind it.
/// Source   Volcano, docs/design/sla-plugin.md and pkg/scheduler/plugins/sla.
struct Sla {
  std::optional<Duration> waiting_time;  ///< for jobs without their own; times are positive

  struct Job {
    Instant created;
    std::optional<Duration> waiting_time;
  };
  /// When its waiting time expires; empty if it has no limit.
  [[nodiscard]] std::optional<Instant> deadline(const Job& job) const;
  [[nodiscard]] bool before(const Job& a, const Job& b) const;
  /// What is left for other jobs after the needs of overdue jobs are reserved, one after the other.
  [[nodiscard]] static Resources keep(Resources idle, std::span<const Resources> overdue);
};

}  // namespace qm::admission::volcano
