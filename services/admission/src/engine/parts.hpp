#pragma once
#include "lifecycle/admission_checks.hpp"
#include "lifecycle/job_updates.hpp"
#include "lifecycle/placement_answers.hpp"
#include "lifecycle/requests.hpp"
#include "lifecycle/timers.hpp"
#include "quota/nodes.hpp"
#include "quota/objects.hpp"
#include "quota/quota_windows.hpp"
#include "quota/schedule.hpp"

#include <utility>

namespace qm::admission {

/// The parts of an engine, lowest first: a part calls only those that its constructor gets, so calls go up in this list.
struct EngineParts {
  explicit EngineParts(Options options) : state(std::move(options)) {}
  EngineParts(const EngineParts&) = delete;
  EngineParts& operator=(const EngineParts&) = delete;

  EngineState state;

  // Rows.
  Holds holds{state};
  LocalUsages usage{state};
  RunHistory history{state};
  WorkloadRows rows{state, holds, usage};
  // The life cycle of a workload.
  SpecUpdates specs{state, rows, history};
  Transitions transitions{state, rows, specs, history, usage};
  Activation activation{state, rows, specs, transitions};
  AdmissionChecks checks{state, rows, transitions, activation};
  // Quota.
  BudgetControl budgets{state, rows, holds};
  ScaleUp scale_up{state, rows, transitions, budgets};
  QuotaWindows windows{state, transitions};
  Proposals proposals{state, rows, transitions};
  Schedule scheduler{state, transitions, budgets, scale_up, usage};
  // Inputs.
  Objects objects{state, rows, transitions, checks, usage};
  Nodes nodes{state, transitions};
  PodGroups groups{state, rows, transitions};
  JobUpdates jobs{state, rows, specs, transitions, activation, groups, scale_up};
  Starts starts{state, rows, transitions};
  PlacementAnswers answers{state, rows, transitions, starts};
  Requests requests{state, rows, transitions};
  Timers timers{state, rows, transitions, activation, proposals};

  // The part that handles each command.
  void on(const ApplyObjects& c) { objects.on(c); }
  void on(const ObjectDeleted& c) { objects.on(c); }
  void on(const ObjectsSynced& c) { objects.on(c); }
  void on(const JobUpdated& c) { jobs.on(c); }
  void on(const JobDeleted& c) { jobs.on(c); }
  void on(const JobsSynced& c) { jobs.on(c); }
  void on(const PlacementUpdated& c) { answers.on(c); }
  void on(const PromiseUpdated& c) { answers.on(c); }
  void on(const CheckpointUpdated& c) { answers.on(c); }
  void on(const RequeueListUpdated& c) { answers.on(c); }
  void on(const EvictionRequested& c) { answers.on(c); }
  void on(const Submit& c) { requests.on(c); }
  void on(const Cancel& c) { requests.on(c); }
  void on(const IntentOutcome& c) { requests.on(c); }
  void on(const AnswerCheck& c) { checks.on(c); }
  void on(const ActiveUpdated& c) { activation.on(c); }
  void on(const SetActive& c) { activation.on(c); }
  void on(const BudgetGranted& c) { budgets.on(c); }
  void on(const SpendingUpdated& c) { budgets.on(c); }
  void on(const EstimatePublished& c) { history.on(c); }
  void on(const ProposalUpdated& c) { proposals.on(c); }
  void on(const NodesUpdated& c) { nodes.on(c); }
  void on(const Tick&) {}
  void on(const Reconsider&) { state.reschedule_all(); }
};

}  // namespace qm::admission
