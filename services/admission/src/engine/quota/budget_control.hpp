#pragma once
#include "lifecycle/workload_rows.hpp"
#include "quota/holds.hpp"

#include <string>

namespace qm::admission {

/// Budgets. A workload that is about to get quota takes a hold of its expected cost from each budget that pays for it,
/// or stays pending; workloads behind it are not blocked by that. A hold is extended while the workload runs longer
/// than expected. It is released when cost has settled the attempt, or at once if the attempt never started. Nothing
/// here evicts: the cost of work that runs on without free budget is owed.
///
/// Before trees are scheduled, workloads that cannot be paid for are taken out of them, so that they preempt nothing.
///
/// Writes   budgets, and holds through Holds.
class BudgetControl {
 public:
  BudgetControl(EngineState& state, WorkloadRows& rows, Holds& holds) : state_(state), rows_(rows), holds_(holds) {}

  void on(const BudgetGranted& c);
  void on(const SpendingUpdated& c);

  /// Blocks workloads that request more than is free, and unblocks those that no longer do.
  void review();
  /// Takes holds from all budgets that pay for it, or from none; then it stays pending and the result is false.
  [[nodiscard]] bool reserve_holds(const WorkloadUid& uid, const Assignment& assignment);
  /// Takes holds for the added pods of a scale-up.
  void hold_for_scale_up(const WorkloadUid& uid);
  /// Extends the holds of workloads that run longer than expected, as far as amounts are free.
  void extend_holds();

 private:
  void wait_for(const WorkloadUid& uid, const std::string& budget);
  void forget_budget(const std::string& name);
  void refresh_requests();

  EngineState& state_;
  WorkloadRows& rows_;
  Holds& holds_;
};

}  // namespace qm::admission
