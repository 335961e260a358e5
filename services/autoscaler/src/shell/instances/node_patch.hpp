#pragma once
#include "qm/base/json.hpp"
#include "qm/kube/client.hpp"
#include "qm/model/resources.hpp"

#include <vector>

namespace qm::autoscaler {

/// Gives the node these taints, and adds the labels and annotations. The version of `node` refuses the patch if another client changed the
/// node since it was read.
///
/// Fails    false: read the node again. A failure other than a conflict or a missing node is logged.
bool patch_node(kube::Client& client, const Json& node, const std::vector<Taint>& taints, Json labels,
                Json annotations = Json::object());

}  // namespace qm::autoscaler
