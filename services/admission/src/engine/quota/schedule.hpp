#pragma once
#include "quota/budget_control.hpp"
#include "quota/local_usages.hpp"
#include "quota/scale_up.hpp"

namespace qm::admission {

/// Schedules quota trees and applies the decisions to rows, events and intents.
class Schedule {
 public:
  Schedule(EngineState& state, Transitions& transitions, BudgetControl& budgets, ScaleUp& scale_up, LocalUsages& usage)
      : state_(state), transitions_(transitions), budgets_(budgets), scale_up_(scale_up), usage_(usage) {}

  /// Applies aging up to now.
  void apply_aging();
  /// Schedules each marked tree until no mark is left; a bound limits one step under any policies.
  void run_marked();

 private:
  void run(int tree);

  EngineState& state_;
  Transitions& transitions_;
  BudgetControl& budgets_;
  ScaleUp& scale_up_;
  LocalUsages& usage_;
};

}  // namespace qm::admission
