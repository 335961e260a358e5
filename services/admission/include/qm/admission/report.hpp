#pragma once
#include "qm/admission/engine.hpp"
#include "qm/store/store.hpp"

#include <optional>
#include <vector>

/// What admission publishes for dashboards: one appended row for each start, eviction and end, and views over them.
namespace qm::admission {

/// The table `transitions` of this schema, and in the schema `report`, over all shards of the database:
///   queue_waits   one row per start: time, workload, queue, GPUs, wait
///   jobs          one row per workload: first and last start, attempts, evictions, result
[[nodiscard]] std::vector<store::Migration> migrations();

/// The row for an event; empty if the event is not a start, eviction or end.
[[nodiscard]] std::optional<store::AppendRow> transition_row(const Event& event);

}  // namespace qm::admission
