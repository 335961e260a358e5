#pragma once
#include "qm/admission/queries/explanation.hpp"
#include "qm/admission/scheduler/shortfalls.hpp"

#include <string>
#include <vector>

/// Queries about workloads: they read the state of the engine and change nothing.
///
/// Threads  that of the engine.
namespace qm::admission {

struct Tables;

/// Position among all pending workloads of its cluster queue, 1 = next; 0 if it is not pending. O(log pending).
[[nodiscard]] int queue_position(const EngineState& state, const Workload& workload);
/// The quota that a pending workload lacks, and single changes that would make it fit its quota tree. Both ignore the
/// workloads ahead of it in the queue.
[[nodiscard]] std::vector<QuotaShortfall> shortfalls(const EngineState& state, const Workload& w);
[[nodiscard]] std::vector<QuotaRemedy> quota_remedies(const EngineState& state, const Workload& w);
/// Whether the job that this intent creates for a submission has not been observed yet.
[[nodiscard]] bool awaits(const Tables& tables, const Namespace& ns, const std::string& name,
                          const std::string& intent);

}  // namespace qm::admission
