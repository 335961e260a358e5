#pragma once
#include "qm/admission/options.hpp"
#include "qm/admission/workload.hpp"

#include <optional>

/// The instants at which something happens to a workload without a message.
namespace qm::admission {

/// End of the maximum execution time. Only admitted time counts, over all attempts.
[[nodiscard]] std::optional<Instant> run_limit_of(const Workload& w);
/// When the pods of a running workload must be ready, or ready again. Empty without `wait_for_pods_ready`.
[[nodiscard]] std::optional<Instant> pods_limit_of(const Options& options, const Workload& w);
/// The next timer of the workload, in any phase; empty if it has none.
[[nodiscard]] std::optional<Instant> timer_of(const Options& options, const Workload& w);

}  // namespace qm::admission
