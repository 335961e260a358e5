#pragma once
#include "engine/allocator/allocator.hpp"
#include "engine/disruption/reservations.hpp"
#include "engine/nodes/capacities.hpp"
#include "engine/state.hpp"

#include <optional>

namespace qm::placement {

/// The engine's placement for hypothetical requests: on the caller's nodes, by the current preference.
class WhatIf final : public Trial {
 public:
  WhatIf(const State& state, const Allocator& allocator, const Capacities& capacities,
         const Reservations& reservations);
  ~WhatIf() override;
  WhatIf(const WhatIf&) = delete;
  WhatIf& operator=(const WhatIf&) = delete;

  /// Free capacity that is available to the workload; `own` stores it if it differs from the engine's.
  [[nodiscard]] FreeCapacity& free_capacity(const WorkloadUid& uid, std::optional<FreeCapacity>& own) const;

  [[nodiscard]] Demands demands(const PlacementRequest& request, std::size_t position) const override;
  [[nodiscard]] PlacementResult place(const PlacementRequest& request, FreeCapacity& free_capacity) const override;
  [[nodiscard]] bool fits(const PlacementRequest& request, FreeCapacity& free_capacity) const override;
  [[nodiscard]] std::optional<Diagnosis> near(const PlacementRequest& request,
                                              const FreeCapacity& free_capacity) const override;

 private:
  [[nodiscard]] PlacementResult decide(const PlacementRequest& request, FreeCapacity& free_capacity,
                                       ResultDetail wanted) const;
  [[nodiscard]] rules::TemplateId hold(const rules::PodTemplate& like) const;

  const State& state_;
  const Allocator& allocator_;
  const Capacities& capacities_;
  const Reservations& reservations_;
  std::optional<Preference> own_;                // set if the known and the scored mix have drifted apart
  mutable std::vector<rules::TemplateId> held_;  // templates of repeated requests, compiled once
};

}  // namespace qm::placement
