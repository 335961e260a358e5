#pragma once
#include "fields.hpp"
#include "qm/autoscaler/replicas/scaled_object.hpp"

namespace qm::autoscaler::replicas {

/// One of spec.triggers; empty after a fault.
[[nodiscard]] std::optional<Trigger> read_trigger(Fields& in, std::size_t index);

}  // namespace qm::autoscaler::replicas
