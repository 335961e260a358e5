#pragma once
#include "qm/autoscaler/commands.hpp"
#include "qm/base/json.hpp"

#include <vector>

namespace qm::autoscaler {

/// Of a single launch, and of each member of a gang's; before them, of offerings that the cloud tried in vain.
[[nodiscard]] std::vector<Command> launch_outcome(const Json& answer);

}  // namespace qm::autoscaler
