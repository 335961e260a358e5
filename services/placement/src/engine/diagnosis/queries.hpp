#pragma once
#include "engine/allocator/allocator.hpp"
#include "engine/disruption/reservations.hpp"
#include "engine/nodes/capacities.hpp"
#include "engine/state.hpp"

#include <vector>

namespace qm::placement {

/// Answers about hypothetical placements, and the fleet as numbers. No answer changes the state.
class Queries {
 public:
  Queries(const State& state, const Capacities& capacities, const Allocator& allocator,
          const Reservations& reservations)
      : state_(state),
        tables_(state.tables),
        index_(state.index),
        capacities_(capacities),
        allocator_(allocator),
        reservations_(reservations) {}

  [[nodiscard]] PlacementResult dry_run(const PlacementRequest& request, const WorkloadUid& uid) const;
  [[nodiscard]] Diagnosis diagnose(const std::vector<PodSet>& pod_sets, const WorkloadUid& uid) const;
  [[nodiscard]] Diagnosis diagnose_without_pods(const std::vector<PodSet>& pod_sets) const;
  [[nodiscard]] Outline outline() const;

 private:
  const State& state_;
  const Tables& tables_;
  const Index& index_;
  const Capacities& capacities_;
  const Allocator& allocator_;
  const Reservations& reservations_;
};

}  // namespace qm::placement
