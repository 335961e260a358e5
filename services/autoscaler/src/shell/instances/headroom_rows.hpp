#pragma once
#include "qm/autoscaler/headroom/history.hpp"
#include "state/autoscaler_state.pb.h"

namespace qm::autoscaler {

/// The stored form of headroom, in both directions.
[[nodiscard]] quartermaster::autoscaler::state::HeadroomSlo message(const HeadroomSlo& slo);
[[nodiscard]] HeadroomSlo headroom_slo_of(const quartermaster::autoscaler::state::HeadroomSlo& row);
[[nodiscard]] quartermaster::autoscaler::state::Headroom message(const HeadroomRow& headroom);
[[nodiscard]] HeadroomRow headroom_of(const quartermaster::autoscaler::state::Headroom& row);
[[nodiscard]] quartermaster::autoscaler::state::HeadroomDay message(const HeadroomDay& day);
[[nodiscard]] HeadroomDay headroom_day_of(const quartermaster::autoscaler::state::HeadroomDay& row);

}  // namespace qm::autoscaler
