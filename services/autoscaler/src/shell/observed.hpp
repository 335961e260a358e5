#pragma once
// What the API server's pods say to a service that nobody else tells.
#include "qm/base/json.hpp"
#include "qm/kube/client.hpp"

namespace qm::autoscaler {

/// Holds its node: it has not ended, and is no part of the node itself (DaemonSet, static pod).
[[nodiscard]] bool works(const Json& pod);
/// A scheduler looked at it and found no room.
[[nodiscard]] bool waits_for_room(const Json& pod);
/// Pods that hold this node now, by a consistent read.
Result<std::int64_t> working_pods(kube::Client& client, const std::string& node);

}  // namespace qm::autoscaler
