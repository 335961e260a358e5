#pragma once
#include "lifecycle/admission_checks.hpp"
#include "quota/local_usages.hpp"

#include <set>
#include <vector>

namespace qm::admission {

/// Queues, cohorts, flavors, topologies, priority classes, namespaces and admission checks, and what workloads resolve to.
///
/// Writes   the tables of these kinds.
class Objects {
 public:
  Objects(EngineState& state, WorkloadRows& rows, Transitions& transitions, AdmissionChecks& checks, LocalUsages& usage)
      : state_(state), rows_(rows), transitions_(transitions), checks_(checks), usage_(usage) {}

  void on(const ApplyObjects& c);
  void on(const ObjectDeleted& c);
  void on(const ObjectsSynced& c);
  /// Resolves workloads again after the commands of a step: all of them if an object changed, otherwise those of
  /// namespaces with changed labels, because these affect no others.
  void resolve_changed();
  /// Removes deleted queues without holders of quota. Only a queue with changed usage can have reached that state.
  void close_queues();

 private:
  void remove_queue(const QueueName& name);
  void resolve_all();
  void resolve_of(const std::set<Namespace>& namespaces);
  void resolve(const std::vector<WorkloadUid>& uids);

  EngineState& state_;
  WorkloadRows& rows_;
  Transitions& transitions_;
  AdmissionChecks& checks_;
  LocalUsages& usage_;
};

}  // namespace qm::admission
