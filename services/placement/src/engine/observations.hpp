#pragma once
#include "engine/disruption/proposals.hpp"
#include "engine/gangs/pods.hpp"
#include "engine/mig/layout_orders.hpp"
#include "engine/mig/mig_repartitions.hpp"
#include "engine/nodes/nodes.hpp"
#include "engine/rows.hpp"
#include "engine/state.hpp"

#include <string>
#include <vector>

namespace qm::placement {

/// Stores the observations of a batch as received, and marks what the evaluation of the step has to look at.
///
/// Cost     of each observation: logarithmic, plus the pods and attempts of its workload.
class Observations {
 public:
  Observations(State& state, const Pods& pods, Rows& rows, Proposals& proposals, LayoutOrders& orders,
               MigRepartitions& repartitions, Nodes& nodes)
      : state_(state),
        tables_(state.tables),
        index_(state.index),
        scratch_(state.scratch),
        pods_(pods),
        rows_(rows),
        proposals_(proposals),
        orders_(orders),
        repartitions_(repartitions),
        nodes_(nodes) {}

  void apply(const Tick&) {}
  void apply(const WatchStarted&);
  void apply(const NodeUpdated&);
  void apply(const NodeDeleted&);
  void apply(const NodesSynced&);
  void apply(const PodUpdated&);
  void apply(const PodDeleted&);
  void apply(const PodsSynced&);
  void apply(const StorageUpdated&);
  void apply(const StorageDeleted&);
  void apply(const StorageSynced&);
  void apply(const WorkloadUpdated&);
  void apply(const HealthUpdated&);
  void apply(const DrainUpdated&);
  void apply(const DevicesObserved&);
  void apply(const OrderLayouts&);
  void apply(const NodeReportUpdated&);
  void apply(const BindFinished&);
  void apply(const IntentFailed&);

  /// A pod that names a workload and is not one of its pods: counts it once, and if it is pending, writes the reason
  /// to its condition.
  void report_foreign(const std::string& pod_uid);

 private:
  void remove_pod(const std::string& uid);
  /// Marks the attempt of the workload that owns the pod, and returns the workload; empty if none owns it.
  std::vector<WorkloadUid> reconcile_for(const PodFacts& pod);
  void answer_outdated(const AttemptId& newest);
  void retry_for(const std::string& key);
  /// None if the node has no row.
  [[nodiscard]] NodeCordonCauses cordon_causes(const NodeName& node) const;
  /// Keeps no row without a cause.
  void set_cordon_causes(const NodeName& node, NodeCordonCauses causes);

  State& state_;
  Tables& tables_;
  Index& index_;
  Scratch& scratch_;
  const Pods& pods_;
  Rows& rows_;
  Proposals& proposals_;
  LayoutOrders& orders_;
  MigRepartitions& repartitions_;
  Nodes& nodes_;
};

}  // namespace qm::placement
