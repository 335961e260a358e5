#pragma once
#include "qm/admission_policy/policy.hpp"
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace qm::admission_policy {

/// NetworkPolicy as the networks of Kubernetes evaluate it: which flows pass, and what its author probably did not
/// intend.
///
/// Threads  any; a value.
/// Fails    read: kInvalid names the field.
/// Source   networking.k8s.io/v1: a pod that no policy selects for a direction is open in it; otherwise a rule of a
///          policy that selects it must allow the flow. Both ends must allow it.

/// One end of a flow: a pod, or an address outside the cluster.
struct Endpoint {
  std::string ns;  ///< empty = outside
  Labels ns_labels, labels;
  std::string ip = {};  ///< IPv4; required outside, and where a policy names blocks
};
struct Flow {
  Endpoint from, to;
  std::int64_t port = 0;
  std::string protocol = "TCP";
  std::string port_name = {};  ///< of the container port, if it has one
};

struct NetworkPolicy {
  struct Peer {
    std::optional<LabelSelector> namespaces, pods;  ///< unset = not specified
    std::string block;                              ///< "10.0.0.0/8"
    std::vector<std::string> except;
  };
  struct Port {
    std::string protocol = "TCP";
    std::int64_t first = 0, last = 0;  ///< 0 = every port
    std::string name;                  ///< instead of a number
  };
  struct Rule {
    std::vector<Peer> peers;  ///< empty = all peers
    std::vector<Port> ports;  ///< empty = every port
  };
  std::string ns, name;
  LabelSelector pods;  ///< pods that it selects; empty = all of the namespace
  bool limits_ingress = true, limits_egress = false;
  std::vector<Rule> ingress, egress;
  static Result<NetworkPolicy> read(const Json& object);
};

[[nodiscard]] bool passes(const std::vector<NetworkPolicy>& policies, const Flow& flow);

/// Restrictions that a policy seems to make but does not. Codes in capitals begin the messages:
/// NO_DNS, ONLY_OWN_NAMESPACE, UNTRUSTED_NAMESPACE_LABEL, EGRESS_OPEN.
[[nodiscard]] std::vector<Finding> lint(const NetworkPolicy& policy);

}  // namespace qm::admission_policy
