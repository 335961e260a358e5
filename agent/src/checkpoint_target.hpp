#pragma once
#include "pods.hpp"
#include "qm/base/result.hpp"

#include <string>
#include <string_view>

namespace qm::agent {

/// The URL that a checkpoint order of a rank is sent to.
struct CheckpointTarget {
  std::string origin;  ///< "http://10.0.0.7:8480"
  std::string path;    ///< "/v1/checkpoint"
  friend bool operator==(const CheckpointTarget&, const CheckpointTarget&) = default;
};

/// Parses the annotation quartermaster.dev/checkpoint of a rank. The pod's author writes it and the agent calls it
/// from the node's network, so it may name only the pod.
///
/// Form     SCHEME://{podIP}[:PORT][/PATH], or an address of the pod instead of {podIP}, IPv6 in brackets; http or
///          https. {namespace} and {pod} in the path are replaced.
/// Address  one of status.podIPs. Loopback, unspecified, multicast and link-local addresses, which include the metadata
///          service of a cloud, are refused. So are pods on the host's network: their address is the node's.
/// Gateway  empty, or a URL of the operator ("http://gateway/pods/{namespace}/{pod}") that receives the orders of all
///          pods: the annotation is validated in the same way, and its path is appended to the gateway's.
/// Fails    kInvalid, kFailedPrecondition: names the pod, the error, and the valid form.
[[nodiscard]] Result<CheckpointTarget> checkpoint_target(const Rank& rank, const std::string& gateway = {});

/// Whether the text is an http URL without a user, a query or a fragment.
[[nodiscard]] bool is_gateway(std::string_view url);

}  // namespace qm::agent
