#pragma once
#include "qm/base/id.hpp"

#include <cstdint>
#include <string>

namespace qm {

using WorkloadUid = Named<struct WorkloadUidTag>;  ///< Kubernetes uid of the owning object
using NodeName = Named<struct NodeNameTag>;
using QueueName = Named<struct QueueNameTag>;  ///< ClusterQueue
using Namespace = Named<struct NamespaceTag>;
using Team = Named<struct TeamTag>;              ///< who pays
using InstanceId = Named<struct InstanceIdTag>;  ///< "i-0abc..."
using ClaimName = Named<struct ClaimNameTag>;    ///< NodeClaim
using FlavorName = Named<struct FlavorNameTag>;  ///< ResourceFlavor
using DeviceUuid = Named<struct DeviceUuidTag>;  ///< "GPU-..."

/// A workload in one of its lives: the attempt grows each time quota is released, older attempts are dropped.
struct AttemptId {
  WorkloadUid uid;
  std::int32_t attempt = 1;
  friend auto operator<=>(const AttemptId&, const AttemptId&) = default;
  [[nodiscard]] std::string to_string() const { return uid.value() + "/" + std::to_string(attempt); }
};

}  // namespace qm
