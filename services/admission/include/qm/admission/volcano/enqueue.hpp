#pragma once
#include "qm/admission/volcano/resources.hpp"
#include "qm/base/time.hpp"

#include <map>
#include <optional>
#include <span>
#include <vector>

namespace qm::admission::volcano {

/// Vote of a rule on enqueueing a job.
enum class Vote : std::int8_t { kReject = -1, kAbstain = 0, kPermit = 1 };

/// Tiers in order, the rules of each in order: a Reject refuses at once, the first tier with a Permit accepts, and
/// if all abstain the job is enqueued.
/// Source   Volcano, pkg/scheduler/framework/session_plugins.go.
[[nodiscard]] bool let_in(const std::vector<std::vector<Vote>>& tiers);

/// Enqueues slightly more than the capacity, so that pods exist when capacity becomes free.
///
/// Permit iff inqueue + least ≤ total · factor - used, for each requested resource. A job without a minimum request is
/// enqueued.
///
/// Units    factors in thousandths, at least 1000 (otherwise the default); total · factor is rounded down.
/// Source   Volcano, pkg/scheduler/plugins/overcommit; its default factor is 1.2.
struct Overcommit {
  static constexpr std::int64_t kDefault = 1200;
  std::int64_t factor = kDefault;
  std::map<std::size_t, std::int64_t> of_resource;

  [[nodiscard]] Vote vote(const Resources& least, const Resources& total, const Resources& used,
                          const Resources& inqueue) const;
};

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
  /// Permit after the deadline, Abstain before.
  [[nodiscard]] Vote vote(const Job& job, Instant now) const;
  [[nodiscard]] bool before(const Job& a, const Job& b) const;
  /// What is left for other jobs after the needs of overdue jobs are reserved, one after the other.
  [[nodiscard]] static Resources keep(Resources idle, std::span<const Resources> overdue);
};

}  // namespace qm::admission::volcano
