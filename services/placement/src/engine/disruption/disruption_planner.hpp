#pragma once
#include "engine/disruption/defragmentation.hpp"
#include "engine/disruption/mig_preemption.hpp"
#include "engine/disruption/preemption.hpp"
#include "engine/disruption/proposals.hpp"
#include "engine/disruption/victims.hpp"
#include "engine/mig/mig_repartitions.hpp"
#include "engine/mig/repartition_search.hpp"
#include "engine/nodes/nodes.hpp"
#include "engine/rows.hpp"
#include "engine/state.hpp"

#include <optional>
#include <set>

namespace qm::placement {

/// The one place that decides on disruptions: which pending workloads are searched for and when, which plan becomes a
/// proposal, and what happens to active proposals of all kinds: preemption, migration, MIG preemption, gang recovery.
class DisruptionPlanner {
 public:
  DisruptionPlanner(State& state, Rows& rows, Proposals& proposals, Nodes& nodes, MigRepartitions& repartitions,
                    const RepartitionSearch& repartition_search, const Victims& victims,
                    const MigPreemption& mig_preemption, const Preemption& preemption, Defragmentation& defragmentation)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        index_(state.index),
        scratch_(state.scratch),
        rows_(rows),
        proposals_(proposals),
        nodes_(nodes),
        repartitions_(repartitions),
        repartition_search_(repartition_search),
        victims_(victims),
        mig_preemption_(mig_preemption),
        preemption_(preemption),
        defragmentation_(defragmentation) {}

  /// Earliest time of a victim search for the workload; none if there is none.
  [[nodiscard]] std::optional<Instant> earliest(const WorkloadUid& uid) const;
  /// Searches victims for workloads whose time has come.
  void propose();
  /// Ends proposals whose workload is not pending any more. Workloads with changes on held nodes are placed
  /// again.
  void recheck(const std::set<NodeName>& seen);
  /// Runs after all workloads were placed.
  void advance();

 private:
  void search(const WorkloadUid& uid, const std::set<AttemptId>& terminating);
  /// No answer yet: whether the plan would be made again at no higher cost.
  [[nodiscard]] bool is_valid(const WorkloadUid& uid) const;
  /// The victims have left: repartitions are ordered and hold the new instances.
  void order_repartitions(const WorkloadUid& uid);

  State& state_;
  const Options& options_;
  Tables& tables_;
  Index& index_;
  Scratch& scratch_;
  Rows& rows_;
  Proposals& proposals_;
  Nodes& nodes_;
  MigRepartitions& repartitions_;
  const RepartitionSearch& repartition_search_;
  const Victims& victims_;
  const MigPreemption& mig_preemption_;
  const Preemption& preemption_;
  Defragmentation& defragmentation_;
};

}  // namespace qm::placement
