#pragma once
#include "lifecycle/activation.hpp"

namespace qm::admission {

/// Conditions in addition to quota, before the start: each required admission check is Ready and, where configured, the
/// pods of all started workloads are ready. Until then quota is held behind a gate, and placement gets no request.
class AdmissionChecks {
 public:
  AdmissionChecks(EngineState& state, WorkloadRows& rows, Transitions& transitions, Activation& activation)
      : state_(state), rows_(rows), transitions_(transitions), activation_(activation) {}

  void on(const AnswerCheck& c);
  /// Its queue may require other checks by now. A workload past the gate keeps its checks.
  void refresh(const WorkloadUid& uid);
  /// Opens gates in the order in which quota was reserved: a gated workload blocks no quota except its own.
  void open_gates();

 private:
  void evaluate(const WorkloadUid& uid, Duration retry_after);

  EngineState& state_;
  WorkloadRows& rows_;
  Transitions& transitions_;
  Activation& activation_;
};

}  // namespace qm::admission
