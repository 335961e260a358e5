#pragma once
#include "engine/disruption/gang_recovery.hpp"
#include "engine/disruption/proposals.hpp"
#include "engine/gangs/attempts.hpp"
#include "engine/gangs/pods.hpp"
#include "engine/rows.hpp"
#include "engine/state.hpp"

#include <vector>

namespace qm::placement {

/// Reconciles one attempt with its pods and with the state from admission: level-triggered and idempotent.
class Reconciler {
 public:
  Reconciler(State& state, const Pods& pods, const Attempts& attempts, Rows& rows, GangRecovery& recovery,
             Proposals& proposals)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        index_(state.index),
        scratch_(state.scratch),
        pods_(pods),
        attempts_(attempts),
        rows_(rows),
        recovery_(recovery),
        proposals_(proposals) {}

  /// Reconciles the attempt.
  void reconcile(const AttemptId& id);

 private:
  void note_successes(const WorkloadUid& uid);
  void reconcile_held(const AttemptId& id, Assignment& next, Ending ending, const std::vector<const Pod*>& pods);
  void evict_if_idle(const AttemptId& id, Assignment& next);
  void release_unused(const AttemptId& id, Assignment& next) const;
  void fill_member(const AttemptId& id, Assignment& next, Member& member, Ending ending,
                   const std::vector<const Pod*>& pods);
  void order_deletes(const AttemptId& id, const std::vector<const Pod*>& pods);
  void drop_workload_if_done(const WorkloadUid& uid);

  State& state_;
  const Options& options_;
  Tables& tables_;
  Index& index_;
  Scratch& scratch_;
  const Pods& pods_;
  const Attempts& attempts_;
  Rows& rows_;
  GangRecovery& recovery_;
  Proposals& proposals_;
};

}  // namespace qm::placement
