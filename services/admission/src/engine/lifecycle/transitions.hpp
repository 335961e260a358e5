#pragma once
#include "lifecycle/spec_updates.hpp"
#include "lifecycle/workload_rows.hpp"
#include "quota/local_usages.hpp"
#include "quota/run_history.hpp"

#include <cstdint>
#include <string>

namespace qm::admission {

/// The phase transitions of workloads: each changes one row and emits its event and intents.
///
///   Pending -reserve-> QuotaReserved -admit-> Admitted -evict-> Evicting
///   QuotaReserved, Evicting -release-> Pending (next attempt)
///   any but an ended phase -finish-> Finished, -cancel_now-> Cancelled
///
/// Texts are passed by value because they often come from the row that changes.
///
/// Laws     a transition from another phase is a broken law, except evict, which then does nothing.
class Transitions {
 public:
  Transitions(EngineState& state, WorkloadRows& rows, SpecUpdates& specs, RunHistory& history, LocalUsages& usage)
      : state_(state), rows_(rows), specs_(specs), history_(history), usage_(usage) {}

  void reserve(const WorkloadUid& uid, const Assignment& assignment);
  void admit(const WorkloadUid& uid);
  /// Orders an admitted workload to stop before `deadline`; one without pods releases its quota at once. It is pending
  /// again, but not scheduled before `requeue_at`.
  void evict(const WorkloadUid& uid, std::string reason, std::string message, Instant deadline,
             Instant requeue_at = {});
  /// Releases the quota and begins the next attempt after `backoff`. A canceled or deleted workload ends instead.
  void release(const WorkloadUid& uid, std::string reason, Duration backoff);
  void finish(const WorkloadUid& uid, bool succeeded);
  void cancel_now(const WorkloadUid& uid, std::string reason);
  /// Publishes the request or the eviction order again.
  void repeat(const WorkloadUid& uid);
  /// Removes an ended workload whose job is deleted.
  void forget(const WorkloadUid& uid);

  /// The pods of an evicted workload are gone.
  void pods_deleted(const WorkloadUid& uid);
  /// Releases the quota of `ended` pods: a pod set is counted by its pods with work left. Ended pods do not run again.
  void pods_ended(const WorkloadUid& uid, std::int32_t ended);
  void job_deleted(const WorkloadUid& uid);

 private:
  EngineState& state_;
  WorkloadRows& rows_;
  SpecUpdates& specs_;
  RunHistory& history_;
  LocalUsages& usage_;
};

}  // namespace qm::admission
