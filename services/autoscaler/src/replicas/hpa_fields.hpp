#pragma once
#include "fields.hpp"
#include "qm/autoscaler/replicas/spec.hpp"

namespace qm::autoscaler::replicas {

/// `behavior` of an autoscaler; empty if it is absent.
[[nodiscard]] std::optional<Behavior> read_behavior(Fields& in, std::string_view name);

}  // namespace qm::autoscaler::replicas
