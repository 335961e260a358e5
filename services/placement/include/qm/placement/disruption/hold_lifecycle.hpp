#pragma once
#include "qm/base/time.hpp"
#include "qm/placement/mig_repartition.hpp"
#include "qm/placement/relayout.hpp"

namespace qm::placement::disruption {

struct HoldObserved {
  bool occupied = false;  ///< pods use GPUs of the node
  bool pending = false;   ///< the workload of the hold is pending, with or without quota
};
struct HoldStep {
  RepartitionHold hold;
  relayout::Row order;
  Instant wake_at = Instant::max();  ///< end of the hold; max() = no timer
};

/// The hold of a MIG repartition for a pending workload. It ends when the workload is not pending any more, when the
/// order has failed, or some time after the order is done. The order is withdrawn with it, unless the label is
/// already written. Only idle GPUs are repartitioned: if a pod has used them first, the order is withdrawn.
///
/// Threads  any; reads only its arguments.
[[nodiscard]] HoldStep advance_hold(RepartitionHold hold, relayout::Row order, const HoldObserved& seen, Instant now,
                                    const MigRepartitionOptions& options);
/// The workload is placed, so the hold ends.
[[nodiscard]] HoldStep release_hold(RepartitionHold hold, relayout::Row order);

}  // namespace qm::placement::disruption
