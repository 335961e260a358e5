#pragma once
#include "engine/allocator/allocator.hpp"
#include "engine/disruption/reservations.hpp"
#include "engine/nodes/capacities.hpp"
#include "engine/rows.hpp"
#include "engine/state.hpp"

#include <set>
#include <vector>

namespace qm::placement {

/// Offers free capacity to pending workloads in back-off.
class Requeue {
 public:
  Requeue(State& state, const Capacities& capacities, Rows& rows, const Allocator& allocator,
          Reservations& reservations)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        index_(state.index),
        scratch_(state.scratch),
        capacities_(capacities),
        rows_(rows),
        allocator_(allocator),
        reservations_(reservations) {}

  /// A workload in back-off stays on the demand list until its pods fit. It then moves to the requeue list, and
  /// admission ends its back-off. The first offer goes to as many workloads as fit together. Some of them may
  /// get no quota, so the capacity that they leave is offered to the next ones in rounds, each eight times as
  /// large, until no free capacity is of use to a pending workload. The fourth round offers it to all. So every
  /// workload that can use the capacity is offered it within a second; and if a workload uses it, few others
  /// were tried in vain.
  void offer();
  /// Pending workloads whose pods fit. An item leaves the list when its attempt ends or it gets quota.
  [[nodiscard]] std::vector<RequeueItem> requeue() const;

 private:
  bool requeue_fitting(const std::set<WorkloadUid>& pending, std::int32_t round);

  State& state_;
  const Options& options_;
  Tables& tables_;
  Index& index_;
  Scratch& scratch_;
  const Capacities& capacities_;
  Rows& rows_;
  const Allocator& allocator_;
  Reservations& reservations_;
};

}  // namespace qm::placement
