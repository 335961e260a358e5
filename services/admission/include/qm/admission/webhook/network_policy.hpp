#pragma once
#include "qm/admission/webhook/policy.hpp"
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace qm::admission::webhook {

/// NetworkPolicy as the networks of Kubernetes read it: who may talk to whom, and what its author has probably not meant.
///
/// Threads  any, as values.
/// Fails    read: kInvalid names the field.
/// Source   networking.k8s.io/v1: a pod that no policy selects for a direction is open in it; else some rule of some policy
///          that selects it must let the flow pass. Both ends must agree.

/// One end of a flow: a pod, or an address outside of the cluster.
struct Endpoint {
  std::string ns;  ///< empty = outside
  Labels ns_labels, labels;
  std::string ip = {};  ///< IPv4; needed outside, and where a policy names blocks
};
struct Flow {
  Endpoint from, to;
  std::int64_t port = 0;
  std::string protocol = "TCP";
  std::string port_name = {};  ///< of the container's port, where it has one
};

struct NetworkPolicy {
  struct Peer {
    std::optional<LabelSelector> namespaces, pods;  ///< unset = it does not say
    std::string block;                              ///< "10.0.0.0/8"
    std::vector<std::string> except;
  };
  struct Port {
    std::string protocol = "TCP";
    std::int64_t first = 0, last = 0;  ///< 0 = every port
    std::string name;                  ///< in the place of a number
  };
  struct Rule {
    std::vector<Peer> peers;  ///< empty = everybody
    std::vector<Port> ports;  ///< empty = every port
  };
  std::string ns, name;
  LabelSelector pods;  ///< to whom it applies; empty = all of the namespace
  bool limits_ingress = true, limits_egress = false;
  std::vector<Rule> ingress, egress;
  static Result<NetworkPolicy> read(const Json& object);
};

[[nodiscard]] bool passes(const std::vector<NetworkPolicy>& policies, const Flow& flow);

/// What such a policy does not do though it looks as if it did; codes in capitals begin the messages:
/// NO_DNS, ONLY_OWN_NAMESPACE, ANYBODY_MAY_LABEL, EGRESS_OPEN.
[[nodiscard]] std::vector<Finding> lint(const NetworkPolicy& policy);

}  // namespace qm::admission::webhook
