#pragma once
#include "qm/autoscaler/buffer.hpp"
#include "qm/autoscaler/nodes/node_details.hpp"
#include "state/autoscaler_state.pb.h"

#include <string>

namespace qm::autoscaler {

/// The stored form of how nodes start and end, in both directions.
[[nodiscard]] quartermaster::autoscaler::state::PoolLifecycle message(const PoolLifecycle& lifecycle);
[[nodiscard]] PoolLifecycle lifecycle_of(const quartermaster::autoscaler::state::PoolLifecycle& row);
[[nodiscard]] quartermaster::autoscaler::state::ClaimLifecycle message(const ClaimLifecycle& life);
[[nodiscard]] ClaimLifecycle lifecycle_of(const quartermaster::autoscaler::state::ClaimLifecycle& row);
[[nodiscard]] quartermaster::autoscaler::state::NodeDetails message(const NodeDetails& details);
[[nodiscard]] quartermaster::autoscaler::state::LabelRule message(const Requirement& requirement);
[[nodiscard]] Requirement requirement_of(const quartermaster::autoscaler::state::LabelRule& row);
[[nodiscard]] quartermaster::autoscaler::state::Buffer message(const Buffer& buffer);
[[nodiscard]] Buffer buffer_of(const quartermaster::autoscaler::state::Buffer& row);
[[nodiscard]] quartermaster::autoscaler::state::Overlay message(const Overlay& overlay);
[[nodiscard]] Overlay overlay_of(const quartermaster::autoscaler::state::Overlay& row);
[[nodiscard]] NodeDetails details_of(const quartermaster::autoscaler::state::NodeDetails& row);

/// Their rows.
[[nodiscard]] std::string bytes(const NodeDetails& details);
[[nodiscard]] std::string bytes(const Buffer& buffer);
[[nodiscard]] std::string bytes(const Overlay& overlay);
[[nodiscard]] std::string bytes(const LaunchFault& fault);
[[nodiscard]] std::string bytes(const DriftBackOff& back_off);

}  // namespace qm::autoscaler
