#pragma once
#include "qm/admission/queries/explanation.hpp"
#include "qm/admission/scheduler/shortfalls.hpp"

#include <optional>
#include <string>

/// Causes that several parts report.
namespace qm::admission {

/// A cause without amounts of a resource.
[[nodiscard]] Cause cause_of(std::string code, std::string message, std::string remedy = {});
/// The workload requests no pods.
[[nodiscard]] Cause no_pods();
/// A class is named by a label of the object or, without one, by its pods.
[[nodiscard]] Cause unknown_priority(const std::string& name);
/// The cause for a shortfall; if waiting is known to help, with the amount to wait for. remedies() finds what
/// admits the workload.
[[nodiscard]] Cause shortfall_cause(const QuotaShortfall& s, const ClusterQueue& queue, bool first);

/// The reason of a pending workload, in the order in which explain() lists its obstacles: list, describe, the
/// condition of its Workload and `qmctl why` agree. `obstacle` is that of its queue.
[[nodiscard]] std::string waiting_reason(const Workload& w, const std::optional<Cause>& obstacle);

}  // namespace qm::admission
