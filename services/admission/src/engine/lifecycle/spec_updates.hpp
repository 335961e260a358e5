#pragma once
#include "lifecycle/workload_rows.hpp"
#include "quota/run_history.hpp"

#include <string>

namespace qm::admission {

/// Differences in the fields from which quota is counted, in terms of the API; empty = none.
[[nodiscard]] std::string differences(const Spec& was, const Spec& is);
/// For a Job: whether only the number of its pods differs.
[[nodiscard]] bool differ_in_count_alone(const Spec& was, const Spec& is);

/// Replaces the specs of workloads: at once where a workload holds no quota, otherwise at its next attempt.
class SpecUpdates {
 public:
  SpecUpdates(EngineState& state, WorkloadRows& rows, RunHistory& history)
      : state_(state), rows_(rows), history_(history) {}

  /// Replaces the spec of a pending or rejected workload by the newest one.
  void use(const WorkloadUid& uid, const Spec& spec);
  /// Keeps a spec for the next attempt. Emits one event that the object differs from what runs. For a scale-up
  /// (`grows`) ScaleUp emits it.
  void store_next(const WorkloadUid& uid, const Spec& spec, bool grows = false);
  /// Applies the kept update or rejection once the workload holds no quota.
  void apply_next(const WorkloadUid& uid);
  /// Updates the reason of a pending workload after a change of its obstacles.
  void refresh_reason(const WorkloadUid& uid);

 private:
  EngineState& state_;
  WorkloadRows& rows_;
  RunHistory& history_;
};

}  // namespace qm::admission
