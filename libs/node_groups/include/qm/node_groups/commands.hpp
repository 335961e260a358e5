#pragma once
#include "qm/base/result.hpp"
#include "qm/node_groups/node_group.hpp"

#include <string_view>
#include <vector>

namespace qm::node_groups {

/// The node pools that a shell script creates with `gcloud container node-pools create`.
///
/// Bounds   --min-nodes and --max-nodes count the nodes of one zone, as in GKE: with --node-locations they are multiplied
///          by its zones. Without --enable-autoscaling the pool is sized manually.
/// Fails    kInvalid names the flag: unknown, without its value, a shell variable, reversed bounds, or a number of GPUs
///          that the machine type does not have. A script without such a command is an error too.
/// Source   gcloud reference, container node-pools create.
[[nodiscard]] Result<std::vector<Imported>> gke_node_pools(std::string_view script);

/// The node groups that a shell script creates with `eksctl create nodegroup`.
///
/// Fails    as gke_node_pools; also if --nodes is outside of its bounds.
/// Source   eksctl reference, create nodegroup.
[[nodiscard]] Result<std::vector<Imported>> eksctl_node_groups(std::string_view script);

}  // namespace qm::node_groups
