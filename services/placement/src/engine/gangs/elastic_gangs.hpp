#pragma once
#include "engine/allocator/allocator.hpp"
#include "engine/gangs/attempts.hpp"
#include "engine/rows.hpp"
#include "engine/state.hpp"

#include <vector>

namespace qm::placement {

/// Elastic gangs with fewer members than requested. An awaited rank is placed as soon as capacity is free, in the
/// running attempt, near the other members.
class ElasticGangs {
 public:
  ElasticGangs(State& state, const Attempts& attempts, Rows& rows, const Allocator& allocator)
      : tables_(state.tables),
        index_(state.index),
        scratch_(state.scratch),
        attempts_(attempts),
        rows_(rows),
        allocator_(allocator) {}

  /// Places awaited ranks while capacity is free. Returns whether any was placed.
  bool scale_up(const WorkloadUid& uid);
  /// As sets of their own, on nodes with the labels that the gang is bound to.
  [[nodiscard]] std::vector<PodSet> unplaced_pods(const WorkloadUid& uid) const;

 private:
  struct Unit;
  [[nodiscard]] std::vector<Unit> units_of(const AttemptId& id, const Assignment& row, std::size_t set,
                                           const std::vector<PodSet>& pod_sets) const;
  bool place_awaited(const WorkloadUid& uid);
  void note_unplaced(const WorkloadUid& uid);

  Tables& tables_;
  Index& index_;
  Scratch& scratch_;
  const Attempts& attempts_;
  Rows& rows_;
  const Allocator& allocator_;
};

}  // namespace qm::placement
