#pragma once
#include "engine/allocator/allocator.hpp"
#include "engine/disruption/mig_preemption.hpp"
#include "engine/disruption/proposals.hpp"
#include "engine/disruption/victims.hpp"
#include "engine/nodes/capacities.hpp"
#include "engine/rows.hpp"
#include "engine/state.hpp"

#include <map>
#include <optional>
#include <set>

namespace qm::placement {

/// Searches victims for workloads with quota that do not fit, and publishes the result as a proposal.
class Preemption {
 public:
  Preemption(State& state, Rows& rows, Proposals& proposals, const Victims& victims, MigPreemption& mig_preemption,
             const Allocator& allocator, const Capacities& capacities)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        index_(state.index),
        scratch_(state.scratch),
        rows_(rows),
        proposals_(proposals),
        victims_(victims),
        mig_preemption_(mig_preemption),
        allocator_(allocator),
        capacities_(capacities) {}

  /// Earliest time of a victim search for the workload; none if there is none.
  [[nodiscard]] std::optional<Instant> earliest(const WorkloadUid& uid) const;
  /// Searches victims for workloads whose time has come.
  void propose();
  /// No answer yet: whether the proposal would be made again at no higher cost.
  [[nodiscard]] bool is_valid(const WorkloadUid& uid) const;

 private:
  void search(const WorkloadUid& uid, const std::set<AttemptId>& terminating);
  [[nodiscard]] std::optional<Proposal> plan_victims(const WorkloadUid& uid,
                                                     const std::map<AttemptId, VictimOptions>& candidate_options) const;

  State& state_;
  const Options& options_;
  Tables& tables_;
  Index& index_;
  Scratch& scratch_;
  Rows& rows_;
  Proposals& proposals_;
  const Victims& victims_;
  MigPreemption& mig_preemption_;
  const Allocator& allocator_;
  const Capacities& capacities_;
};

}  // namespace qm::placement
