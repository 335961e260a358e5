#pragma once
#include "qm/base/json.hpp"
#include "qm/base/time.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qm::node_groups {

/// A node group of any provider, as the provider's own tool describes it.
struct NodeGroup {
  std::string name;
  std::string provider;       ///< "aws" or "gce"
  std::string instance_type;  ///< the provider's name of it; empty = not named
  std::string gpu_model;      ///< "a100", as the label karpenter.k8s.aws/instance-gpu-name; empty = none, or not named
  std::int64_t gpus = 0;      ///< of one node
  bool spot = false;
  std::int64_t min = 0, max = 0;  ///< nodes; equal if it is sized manually
  bool autoscaled = true;         ///< false: an operator sets its number of nodes, which is `max`
  Labels labels;
  std::vector<Taint> taints;
  std::vector<std::string> zones;  ///< empty = not named
  friend auto operator<=>(const NodeGroup&, const NodeGroup&) = default;
};

/// A group that was read, and remarks for the operator: flags without an effect here, and amounts that need a check.
struct Imported {
  NodeGroup group;
  std::vector<std::string> notes;
};

/// The name of the group with the letters of a Kubernetes name: "h100-training" of "H100_Training".
[[nodiscard]] std::string object_name(std::string_view name);

/// The NodePool (karpenter.sh/v1) with the same nodes. A type of EC2 is named; of another provider the requirements name
/// the GPU model and the number of GPUs, so that the pool is the same on every cloud.
///
/// `scaling_group`: the Auto Scaling group that launches the instances; empty = none. `unneeded`: an empty node is
/// terminated after this time.
[[nodiscard]] Json node_pool_of(const NodeGroup& group, std::string_view scaling_group, Duration unneeded);

}  // namespace qm::node_groups
