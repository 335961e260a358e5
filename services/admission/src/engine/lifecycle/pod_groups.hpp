#pragma once
#include "lifecycle/transitions.hpp"

namespace qm::admission {

/// Groups without pods yet. A PodGroup is pending with its minResources, gets quota for that, and is gated until its
/// pods exist. Its request is then that of its pods, and it keeps its quota if the amounts are equal.
class PodGroups {
 public:
  PodGroups(EngineState& state, WorkloadRows& rows, Transitions& transitions)
      : state_(state), rows_(rows), transitions_(transitions) {}

  /// Handles an update of a known workload that has not ended; other kinds than PodGroup are ignored.
  void update(const JobUpdated& c);

 private:
  EngineState& state_;
  WorkloadRows& rows_;
  Transitions& transitions_;
};

}  // namespace qm::admission
