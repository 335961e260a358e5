#pragma once
#include "qm/admission/engine.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

namespace qm::admission {

/// A cause without amounts of a resource.
inline Cause cause_of(std::string code, std::string message, std::string remedy = {}) {
  return {.code = std::move(code), .message = std::move(message), .resource = {}, .remedy = std::move(remedy)};
}

/// A class is named by a label of the object or, without one, by its pods.
inline Cause unknown_priority(const std::string& name) {
  return cause_of("PriorityClassUnknown", fmt::format("priority class {} does not exist", name),
                  fmt::format("apply a WorkloadPriorityClass or PriorityClass of that name, or correct the label {} or "
                              "priorityClassName of the pod template",
                              words::kPriorityClassLabel));
}

/// The cause for a shortfall; if waiting is known to help, with the amount to wait for. remedies() finds what
/// admits the workload.
[[nodiscard]] Cause shortfall_cause(const QuotaShortfall& s, const ClusterQueue& queue, bool first);

/// The reason of a pending workload, in the order in which explain() lists its obstacles: list, describe, the
/// condition of its Workload and `qmctl why` agree. `obstacle` is that of its queue.
inline std::string waiting_reason(const Workload& w, const std::optional<Cause>& obstacle) {
  if (!w.inactive.empty()) return "Deactivated";
  if (w.priority_unknown) return "PriorityClassUnknown";
  if (obstacle) return obstacle->code;
  if (w.spec.pod_sets.empty()) return "NoPods";
  if (!w.refused().empty()) return "Misconfigured";
  return w.budget.empty() ? "Queued" : "BudgetExhausted";
}

}  // namespace qm::admission
