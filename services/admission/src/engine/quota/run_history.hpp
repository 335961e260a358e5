#pragma once
#include "state/engine_state.hpp"

namespace qm::admission {

/// The declared run time, or the 90th percentile of its job class, in steps of an eighth of an octave so that few
/// values differ. Zero if neither is known.
[[nodiscard]] Duration planned_run(const EngineState& state, const Workload& w);

/// Observations for forecasts: run times of workloads, and the accuracy of estimated starts. All of it is rows, changed
/// in the step that handles the event.
///
/// Writes   run_times, estimates, corrections.
/// Bounds   1024 rows of run times and 1024 of estimates.
class RunHistory {
 public:
  explicit RunHistory(EngineState& state) : state_(state) {}

  void on(const EstimatePublished& c);
  /// Records the run time of a workload that ends or is cut off now. Of too many job classes the narrow one with the
  /// oldest observation is merged into the next wider one.
  void learn_run(const Workload& w, forecast::LifeTable::End how);
  /// Compares the estimate of a workload with its wait so far; `starts`: the wait is over.
  void compare_estimate(const WorkloadUid& uid, bool starts);
  void forget_estimate(const WorkloadUid& uid);

 private:
  EngineState& state_;
};

}  // namespace qm::admission
