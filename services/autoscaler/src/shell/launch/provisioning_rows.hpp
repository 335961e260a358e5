#pragma once
// ProvisioningRequests as rows and as an input.
#include "qm/autoscaler/tables.hpp"
#include "state/autoscaler_state.pb.h"

#include <string>
#include <vector>

namespace qm::autoscaler {
namespace st = quartermaster::autoscaler::state;

[[nodiscard]] std::string bytes(const ProvisioningRow& row);
[[nodiscard]] ProvisioningRow provisioning_row_of(const st::ProvisioningRequest& row);
/// All requests, as the payload of one input.
[[nodiscard]] std::string provisioning_bytes(const std::vector<ProvisioningRequest>& requests);
[[nodiscard]] Result<ProvisioningApplied> provisioning_from_bytes(const std::string& bytes);

}  // namespace qm::autoscaler
