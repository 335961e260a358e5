#pragma once
#include "engine/allocator/allocator.hpp"
#include "engine/mig/layout_orders.hpp"
#include "engine/mig/repartition_search.hpp"
#include "engine/rows.hpp"
#include "engine/state.hpp"

namespace qm::placement {

/// Orders MIG repartitions for pending workloads and ends those that are not needed any more.
class MigRepartitions {
 public:
  MigRepartitions(State& state, Rows& rows, const Allocator& allocator, const LayoutOrders& orders,
                  const RepartitionSearch& search)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        index_(state.index),
        scratch_(state.scratch),
        rows_(rows),
        allocator_(allocator),
        orders_(orders),
        search_(search) {}

  /// Searches repartitions for short workloads.
  void repartition();
  /// Orders the repartitions, and holds their instances for the workload.
  void order(const WorkloadUid& uid, const MigRepartition& found);
  /// The workload is placed: its remaining repartitions are withdrawn.
  void end(const WorkloadUid& uid);
  /// Evaluates the nodes that are repartitioned for the workload.
  void wake(const WorkloadUid& uid);

 private:
  State& state_;
  const Options& options_;
  Tables& tables_;
  Index& index_;
  Scratch& scratch_;
  Rows& rows_;
  const Allocator& allocator_;
  const LayoutOrders& orders_;
  const RepartitionSearch& search_;
};

}  // namespace qm::placement
