#pragma once
#include "lifecycle/transitions.hpp"
#include "qm/admission/queries/explanation.hpp"
#include "quota/budget_control.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace qm::admission {

/// "2 more pods are pending for quota (4 of 6 pods are admitted)", for an elastic Job that scales up.
[[nodiscard]] std::string scale_up_of(const Workload& w);
/// Whether the workload may run more pods in the same attempt, if `next` is its newest spec.
[[nodiscard]] bool may_scale_up(const Tables& tables, const JobUpdated& c, const Spec& next);
/// Why its requested pods do not get quota; empty if they do.
[[nodiscard]] std::vector<Cause> scale_up_obstacles(const EngineState& state, const Workload& w);

/// Jobs whose number of pods changes while they run. Fewer pods release their quota at once. An elastic Job may have
/// more, as with Kueue's workload slices. The added pods need quota of the flavors that the others have, for all of
/// them together; the others run on meanwhile.
///
/// Order      a scale-up goes before pending workloads of lower priority only. It preempts no workload, and in a strict
///            queue it gets no quota while a workload that goes before it is pending.
/// Placement  gets the new count. min_count has the pods that have to run together, without the added ones.
class ScaleUp {
 public:
  ScaleUp(EngineState& state, WorkloadRows& rows, Transitions& transitions, BudgetControl& budgets)
      : state_(state), rows_(rows), transitions_(transitions), budgets_(budgets) {}

  /// Follows the pod count of a running Job: admitted pods that it no longer runs, pods with no work left, and requested
  /// pods beyond the admitted ones.
  void scale(const JobUpdated& c);
  /// Scales up the workloads of a tree where quota is free. `ahead`: only workloads that precede each pending workload
  /// of the tree, or whose pods run already.
  void run(int tree, bool ahead);
  /// An event on the object, once for each number of pods.
  void report();

 private:
  void request(const WorkloadUid& uid, std::int32_t pods);
  bool attempt(const WorkloadUid& uid);
  bool count_running(const WorkloadUid& uid);

  EngineState& state_;
  WorkloadRows& rows_;
  Transitions& transitions_;
  BudgetControl& budgets_;
};

}  // namespace qm::admission
