#pragma once
#include "qm/admission/volcano/resources.hpp"
#include "qm/base/time.hpp"

#include <map>
#include <optional>
#include <span>
#include <vector>

namespace qm::admission::volcano {

/// What a rule says of letting a job in.
enum class Vote : std::int8_t { kReject = -1, kAbstain = 0, kPermit = 1 };

/// Tiers in order, the rules of each in order: a Reject loses at once, the first tier with a Permit accepts, and where all
/// abstain the job is let in.
/// Source   Volcano, pkg/scheduler/framework/session_plugins.go.
[[nodiscard]] bool let_in(const std::vector<std::vector<Vote>>& tiers);

/// Lets in a little more than there is, so that pods exist when room comes.
///
/// Permit iff inqueue + least ≤ total · factor - used, of each resource asked for; a job that does not say what it needs at
/// least is let in.
///
/// Units    factors in thousandths, at least 1000 (else the default counts); total · factor is rounded down.
/// Source   Volcano, pkg/scheduler/plugins/overcommit; its default factor is 1.2.
struct Overcommit {
  static constexpr std::int64_t kDefault = 1200;
  std::int64_t factor = kDefault;
  std::map<std::size_t, std::int64_t> of_resource;

  [[nodiscard]] Vote vote(const Resources& least, const Resources& total, const Resources& used,
                          const Resources& inqueue) const;
};

/// How long a job may wait. When the time is over it is let in whatever there is, and what is idle is kept for it.
///
/// Order    who has a time before who has none, then the earlier end of it.
/// Law      while a job is overdue, what is idle of what it needs goes to nobody behind it.
/// Source   Volcano, docs/design/sla-plugin.md and pkg/scheduler/plugins/sla.
struct Sla {
  std::optional<Duration> waiting_time;  ///< of jobs that have none of their own; times are positive

  struct Job {
    Instant created;
    std::optional<Duration> waiting_time;
  };
  /// When its time is over; nothing where it has no limit.
  [[nodiscard]] std::optional<Instant> deadline(const Job& job) const;
  /// Permit once the time is over, before that no opinion.
  [[nodiscard]] Vote vote(const Job& job, Instant now) const;
  [[nodiscard]] bool before(const Job& a, const Job& b) const;
  /// What is left for others when the needs of overdue jobs have been kept back, one after the other.
  [[nodiscard]] static Resources keep(Resources idle, std::span<const Resources> overdue);
};

}  // namespace qm::admission::volcano
