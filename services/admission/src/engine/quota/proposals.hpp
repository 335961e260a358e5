#pragma once
#include "lifecycle/transitions.hpp"

namespace qm::admission {

/// The end of the time for which quota is kept while victims terminate; zero if there are none.
[[nodiscard]] Instant victims_deadline(const Tables& tables, const Workload& w);
/// Whether victims of an accepted proposal for this workload still terminate.
[[nodiscard]] bool waits_for_victims(const Tables& tables, const Workload& w);

/// Checks the proposals of placement, victim by victim, by the rules of quota: lower priority, a queue whose policy
/// permits it, no minimum run time left, no cycle of preemptions, and a limit per hour. Victims are evicted in the usual
/// way. The preemptor keeps its quota until they are gone.
///
/// Writes   proposals, preemption_budget.
class Proposals {
 public:
  Proposals(EngineState& state, WorkloadRows& rows, Transitions& transitions)
      : state_(state), rows_(rows), transitions_(transitions) {}

  void on(const ProposalUpdated& c);
  /// Called at the start of a step: the answers to the proposals of the step before are published by then.
  void drop_decisions();
  void extend_deadline(const WorkloadUid& uid);

 private:
  EngineState& state_;
  WorkloadRows& rows_;
  Transitions& transitions_;
};

}  // namespace qm::admission
