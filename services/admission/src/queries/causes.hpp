#pragma once
#include "qm/admission/queries/explanation.hpp"
#include "state/engine_state.hpp"

#include <optional>
#include <vector>

/// The causes of one subject each, from which explanations and forecasts are put together.
namespace qm::admission {

// ---- of a pending workload ----

/// The budget that blocks it.
void explain_budget(const Tables& tables, const Workload& w, Instant now, std::vector<Cause>& causes);
/// Its age, and the start that is reserved for it.
void explain_backfill(const EngineState& state, const Workload& w, Instant now, std::vector<Cause>& causes);
/// Its victims, whose pods must terminate first.
[[nodiscard]] std::optional<Cause> pending_preemption(const EngineState& state, const Workload& w);
/// Local queues with less usage, which go first.
[[nodiscard]] std::optional<Cause> usage_obstacle(const EngineState& state, const Workload& w);
/// When the queue next has more of a missing resource.
[[nodiscard]] std::optional<Cause> window_ahead(const ClusterQueue& queue,
                                                const std::vector<QuotaShortfall>& shortfalls, Instant now);

// ---- of a workload with quota ----

/// The admission checks, pods or earlier workloads that keep its gate closed.
void explain_gate(const EngineState& state, const Workload& w, std::vector<Cause>& causes);
/// The decision on the proposal of placement for it.
void explain_proposal(const Tables& tables, const Workload& w, std::vector<Cause>& causes);
/// The update of its object that is not applied.
void explain_update(const EngineState& state, const Workload& w, std::vector<Cause>& causes);

}  // namespace qm::admission
