#pragma once
#include "pods.hpp"
#include "qm/base/result.hpp"

#include <string>
#include <string_view>

namespace qm::agent {

/// Where a rank is asked to save.
struct CheckpointTarget {
  std::string origin;  ///< "http://10.0.0.7:8480"
  std::string path;    ///< "/v1/checkpoint"
  friend bool operator==(const CheckpointTarget&, const CheckpointTarget&) = default;
};

/// Reads the annotation quartermaster.dev/checkpoint of a rank. It is written by the pod's author and called from the node's network,
/// so it may name the pod and nothing else.
///
/// Form     SCHEME://{podIP}[:PORT][/PATH], or an address of the pod in the place of {podIP}, IPv6 in brackets; http or https.
///          {namespace} and {pod} in the path are filled in.
/// Address  one of status.podIPs. Loopback, unspecified, multicast and link-local addresses, where the metadata service of a cloud
///          is, are refused, and so are pods on the host's network: their address is the node's.
/// Gateway  empty, or a URL of the operator ("http://gateway/pods/{namespace}/{pod}") that takes the orders of all pods: the
///          annotation is checked alike, and its path follows the gateway's.
/// Fails    kInvalid, kFailedPrecondition: names the pod, what is wrong, and the form to write.
[[nodiscard]] Result<CheckpointTarget> checkpoint_target(const Rank& rank, const std::string& gateway = {});

/// kInvalid unless it is an http URL without a query; for the setting checkpoint-gateway.
Status check_gateway(const std::string& url);

}  // namespace qm::agent
