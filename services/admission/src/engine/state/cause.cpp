#include "state/cause.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace qm::admission {
namespace {

/// "3 left for ClusterQueue a", or the amount by which it exceeds its quota.
std::string left_for(const QuotaShortfall& s, const ClusterQueue& queue) {
  const auto left = show_amount(s.resource, std::max<std::int64_t>(0, s.available));
  if (s.available >= 0) return fmt::format("{} left for ClusterQueue {}", left, queue.name);
  return fmt::format("{} left for ClusterQueue {}, where usage exceeds quota by {}", left, queue.name,
                     show_amount(s.resource, -s.available));
}

}  // namespace

Cause cause_of(std::string code, std::string message, std::string remedy) {
  return {.code = std::move(code), .message = std::move(message), .resource = {}, .remedy = std::move(remedy)};
}

Cause no_pods() {
  return cause_of("NoPods", "it requests no pods: parallelism, completions or all replicas are 0",
                  "set them to at least 1; it keeps its queue position");
}

Cause unknown_priority(const std::string& name) {
  return cause_of("PriorityClassUnknown", fmt::format("priority class {} does not exist", name),
                  fmt::format("apply a WorkloadPriorityClass or PriorityClass of that name, or correct the label {} or "
                              "priorityClassName of the pod template",
                              words::kPriorityClassLabel));
}

std::string waiting_reason(const Workload& w, const std::optional<Cause>& obstacle) {
  if (!w.inactive.empty()) return "Deactivated";
  if (w.priority_unknown) return "PriorityClassUnknown";
  if (obstacle) return obstacle->code;
  if (w.spec.pod_sets.empty()) return "NoPods";
  if (!w.refused().empty()) return "Misconfigured";
  return w.budget.empty() ? "Queued" : "BudgetExhausted";
}

Cause shortfall_cause(const QuotaShortfall& s, const ClusterQueue& queue, bool first) {
  Cause c;
  c.resource = s.resource;
  c.requested = s.requested;
  c.available = s.available;
  const auto wanted = show_amount(s.resource, s.requested);
  const auto there = show_amount(s.resource, s.available);
  switch (s.kind) {
    case QuotaShortfall::Kind::kNotCovered:
      c.code = "ResourceNotCovered";
      c.message = fmt::format("pod set {} requests {} of {}, for which ClusterQueue {} has no quota", s.pod_set, wanted,
                              s.resource, queue.name);
      break;
    case QuotaShortfall::Kind::kFlavorMissing:
      c.code = "FlavorMissing";
      c.message = fmt::format("flavor {} of ClusterQueue {} does not exist", s.flavor, queue.name);
      break;
    case QuotaShortfall::Kind::kTaint:
      c.code = "FlavorTainted";
      c.message =
          fmt::format("flavor {} has the taint {}, which pod set {} does not tolerate", s.flavor, s.detail, s.pod_set);
      break;
    case QuotaShortfall::Kind::kSelector:
      c.code = "FlavorMismatch";
      c.message = fmt::format("pod set {} selects another {} than flavor {} has", s.pod_set, s.detail, s.flavor);
      break;
    case QuotaShortfall::Kind::kNeverFits:
      c.code = "ExceedsMaxQuota";
      c.message =
          fmt::format("{} of {} in flavor {} can never fit, so waiting does not help: ClusterQueue {} has {}{}", wanted,
                      s.resource, s.flavor, queue.name, there,
                      queue.cohort.empty() ? "" : fmt::format(" with what it may borrow from Cohort {}", queue.cohort));
      break;
    case QuotaShortfall::Kind::kBorrowingLimit:
      c.code = "BorrowingLimitReached";
      c.message = fmt::format("{} of {} wanted in flavor {}, {}: Cohort {} has more, borrowingLimit forbids it", wanted,
                              s.resource, s.flavor, left_for(s, queue), queue.cohort);
      break;
    case QuotaShortfall::Kind::kQuota:
      c.code = "QuotaExceeded";
      c.message = fmt::format("{} of {} wanted in flavor {}, {}{}", wanted, s.resource, s.flavor, left_for(s, queue),
                              queue.cohort.empty() ? "" : fmt::format(" including what Cohort {} lends", queue.cohort));
      // In a cohort, more than the missing amount may have to become free.
      if (queue.cohort.empty() && first) {
        c.remedy = fmt::format("wait until workloads of the queue release {}",
                               show_amount(s.resource, s.requested - s.available));
      }
      break;
    case QuotaShortfall::Kind::kCapability:
      c.code = "QueueCapability";
      c.message = fmt::format("{} of {} wanted, {} left within the capability of Queue {} or a parent", wanted,
                              s.resource, there, queue.name);
      break;
    case QuotaShortfall::Kind::kShare:
      c.code = "QueueShare";
      c.message = fmt::format("{} of {} wanted, {} left of the deserved amount of Queue {} in pool {}", wanted,
                              s.resource, there, queue.name, s.detail);
      break;
    case QuotaShortfall::Kind::kTopology:
      c.code = "TopologyPlacementFailed";
      c.message = fmt::format("pod set {}: {}", s.pod_set, s.detail);
      break;
    case QuotaShortfall::Kind::kPool:
      c.code = "PoolFull";
      c.message = fmt::format("{} of {} wanted, {} idle in pool {}", wanted, s.resource, there, s.detail);
      break;
  }
  return c;
}

}  // namespace qm::admission
