#pragma once
#include "lifecycle/transitions.hpp"

#include <string>

namespace qm::admission {

/// Deactivates and activates workloads: by request, by `spec.active` of the object, and where pods are not ready in
/// time too often. A workload that may not be scheduled again stays pending until it is activated.
class Activation {
 public:
  Activation(EngineState& state, WorkloadRows& rows, SpecUpdates& specs, Transitions& transitions)
      : state_(state), rows_(rows), specs_(specs), transitions_(transitions) {}

  void on(const SetActive& c);
  void on(const ActiveUpdated& c);

  void deactivate(const WorkloadUid& uid, std::string reason, std::string message);
  void activate(const WorkloadUid& uid);
  /// `spec.active` applies when it changes: a workload that was deactivated here stays inactive until the next change.
  void on_active(const WorkloadUid& uid, bool active);
  /// All pods of a workload are ready, or not all of them any longer.
  void on_pods_ready(const WorkloadUid& uid, bool ready);
  /// Its pods were not ready in time: evicts it with back-off, or deactivates it after too many times.
  void pods_not_ready(const WorkloadUid& uid);

 private:
  EngineState& state_;
  WorkloadRows& rows_;
  SpecUpdates& specs_;
  Transitions& transitions_;
};

}  // namespace qm::admission
