#include "qm/admission/tables.hpp"

namespace qm::admission {

void Tables::seal() {
  each([](auto& table) { table.seal(); });
}

void Tables::commit_sealed() {
  each([](auto& table) { table.commit_sealed(); });
}

void Tables::commit() {
  each([](auto& table) { table.commit(); });
}

void Tables::rollback() {
  each([](auto& table) { table.rollback(); });
}

bool Tables::objects_changed() const {
  return cluster_queues.dirty() || local_queues.dirty() || local_usage.dirty() || cohorts.dirty() || flavors.dirty() ||
         priority_classes.dirty() || namespaces.dirty() || admission_checks.dirty() || topologies.dirty() ||
         nodes.dirty() || budgets.dirty() || holds.dirty();
}

}  // namespace qm::admission
