#pragma once
#include "qm/autoscaler/node_class/launch_parameters.hpp"

#include <string>

namespace qm::autoscaler {

/// The settings of a Bottlerocket node as TOML: those of the class's userData, with the values of the cluster, the
/// labels, the taints and the kubelet settings, which have precedence.
///
/// Fails    kInvalid with the line: user data that is not a list of tables with keys, or that sets a table of ours by
///          dotted or inline keys.
[[nodiscard]] Result<std::string> bottlerocket_settings(const config::NodeClass& node_class,
                                                        const ClusterIdentity& cluster, const PlannedInstance& planned);

}  // namespace qm::autoscaler
