#pragma once
#include "qm/admission/engine.hpp"

namespace qm::admission {

/// Loads a separate engine for a query from copied rows.
inline void load_copied(Engine& engine, const Tables& rows, bool with_ended, Instant now) {
  auto& to = engine.tables_for_load();
  const auto copy = [](const auto& from, auto& into) {
    for (const auto& [key, row] : from) into.restore(key, row);
  };
  copy(rows.cluster_queues, to.cluster_queues);
  copy(rows.local_queues, to.local_queues);
  copy(rows.local_usage, to.local_usage);
  copy(rows.cohorts, to.cohorts);
  copy(rows.flavors, to.flavors);
  copy(rows.priority_classes, to.priority_classes);
  copy(rows.namespaces, to.namespaces);
  copy(rows.admission_checks, to.admission_checks);
  copy(rows.topologies, to.topologies);
  copy(rows.nodes, to.nodes);
  copy(rows.budgets, to.budgets);
  copy(rows.holds, to.holds);
  copy(rows.run_times, to.run_times);
  copy(rows.estimates, to.estimates);
  copy(rows.corrections, to.corrections);
  for (const auto& [key, row] : rows.workloads) {
    if (with_ended || !row.ended()) to.workloads.restore(key, row);
  }
  engine.loaded(now);
}

}  // namespace qm::admission
