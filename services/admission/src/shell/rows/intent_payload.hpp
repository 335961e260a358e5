#pragma once
#include "qm/admission/engine.hpp"

#include <string>

namespace qm::admission {

/// The message to the executor (JobIntent): the object, and what flavors, admission checks and the topology assignment add
/// to its pods.
[[nodiscard]] std::string payload_of(const Intent& intent, const Engine& engine);

}  // namespace qm::admission
