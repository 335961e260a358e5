#pragma once
#include "qm/cloud/resources.hpp"
#include "wire.hpp"

#include <string>

namespace qm::cloud {

/// Adds what RunInstances and a launch template have in common: image, user data, network, profile, volumes, metadata
/// access, placement group and reservation. `prefix` is empty or ends with a dot.
void add_launch(Form& form, const std::string& prefix, const InstanceRequest& request);
/// Adds TagSpecification.N for each resource type, N from 1.
void add_tag_specifications(Form& form, const std::string& prefix, const std::vector<std::string>& types,
                            const Tags& tags);
/// A client token for a call without one of the caller: retries inside the call launch nothing twice.
[[nodiscard]] std::string random_token();

}  // namespace qm::cloud
