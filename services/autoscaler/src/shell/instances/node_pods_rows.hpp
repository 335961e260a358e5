#pragma once
#include "qm/autoscaler/nodes/node_pods.hpp"
#include "qm/base/result.hpp"

#include <string>

namespace quartermaster::autoscaler::state {
class NodePods;
}

namespace qm::autoscaler {

/// The pods of a node as a row, and back.
[[nodiscard]] std::string bytes(const NodePods& pods);
[[nodiscard]] NodePods node_pods_of(const quartermaster::autoscaler::state::NodePods& row);

/// The pods of a node as the payload of one input.
[[nodiscard]] std::string node_pods_bytes(const NodePodsUpdated& update);
[[nodiscard]] Result<NodePodsUpdated> node_pods_from_bytes(const std::string& bytes);

}  // namespace qm::autoscaler
