#pragma once
#include "lifecycle/transitions.hpp"

namespace qm::admission {

/// Requests of users to create and cancel jobs, and the outcomes of the intents that the executor carried out.
///
/// Writes   submissions.
class Requests {
 public:
  Requests(EngineState& state, WorkloadRows& rows, Transitions& transitions)
      : state_(state), rows_(rows), transitions_(transitions) {}

  void on(const Submit& c);
  void on(const Cancel& c);
  void on(const IntentOutcome& c);
  /// Removes submissions older than the retention.
  void expire_submissions();

 private:
  EngineState& state_;
  WorkloadRows& rows_;
  Transitions& transitions_;
};

}  // namespace qm::admission
