#pragma once
#include "qm/base/id.hpp"

#include <cstdint>
#include <string>

namespace qm {

using WorkloadUid = Named<struct WorkloadUidTag>;  ///< Kubernetes uid of the owning object
using NodeName = Named<struct NodeNameTag>;
using QueueName = Named<struct QueueNameTag>;  ///< ClusterQueue
using Namespace = Named<struct NamespaceTag>;
using Team = Named<struct TeamTag>;              ///< the team that is charged
using InstanceId = Named<struct InstanceIdTag>;  ///< "i-0abc..."
using ClaimName = Named<struct ClaimNameTag>;    ///< NodeClaim
using FlavorName = Named<struct FlavorNameTag>;  ///< ResourceFlavor
using DeviceUuid = Named<struct DeviceUuidTag>;  ///< "GPU-..."

/// One attempt of a workload: the number increases each time quota is released; older attempts are dropped.
struct AttemptId {
  WorkloadUid uid;
  std::int32_t attempt = 1;
  friend auto operator<=>(const AttemptId&, const AttemptId&) = default;
  [[nodiscard]] std::string to_string() const { return uid.value() + "/" + std::to_string(attempt); }
};

}  // namespace qm
