#include "state/deadlines.hpp"

#include <algorithm>

namespace qm::admission {

std::optional<Instant> run_limit_of(const Workload& w) {
  if (w.phase != Phase::kAdmitted || w.max_execution == Duration{0}) return std::nullopt;
  return w.admitted + std::max(Duration{0}, w.max_execution - w.ran);
}
std::optional<Instant> pods_limit_of(const Options& options, const Workload& w) {
  const auto& rule = options.wait_for_pods_ready;
  if (!rule || w.phase != Phase::kAdmitted || w.pods_ready != Instant{}) return std::nullopt;
  if (w.pods_lost == Instant{}) return w.admitted + rule->timeout;
  if (rule->recovery_timeout == Duration{0}) return std::nullopt;
  return w.pods_lost + rule->recovery_timeout;
}

std::optional<Instant> timer_of(const Options& options, const Workload& w) {
  std::optional<Instant> first;
  const auto take = [&](Instant t) {
    if (t != Instant{} && (!first || t < *first)) first = t;
  };
  switch (w.phase) {
    case Phase::kPending:
      take(w.not_before);
      break;
    case Phase::kQuotaReserved:
      take(w.retry_at);
      take(w.wait_deadline);
      break;
    case Phase::kAdmitted:
      take(w.wait_deadline);
      take(w.min_runtime_until);
      take(run_limit_of(w).value_or(Instant{}));
      take(pods_limit_of(options, w).value_or(Instant{}));
      break;
    case Phase::kEvicting:
      take(w.retry_at);
      break;
    case Phase::kRejected:
      break;
    case Phase::kFinished:
    case Phase::kCancelled:
      if (w.job_deleted) take(w.finished + options.retention);
      break;
  }
  return first;
}

}  // namespace qm::admission
