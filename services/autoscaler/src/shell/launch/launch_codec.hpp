#pragma once
#include "qm/autoscaler/commands.hpp"
#include "qm/base/json.hpp"

#include <vector>

namespace qm::autoscaler {

/// Of a single launch, and of each member of a gang's; before them, of offerings that the cloud tried in vain.
[[nodiscard]] std::vector<Command> launch_outcome(const Json& answer);

/// The capacity reservations that node classes select, as the payload of one input.
[[nodiscard]] std::string reservations_bytes(const std::vector<ReservationsListed::Item>& reservations);
[[nodiscard]] ReservationsListed reservations_listed(const Json& list);

}  // namespace qm::autoscaler
