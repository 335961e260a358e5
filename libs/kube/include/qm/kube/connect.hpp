#pragma once
#include "qm/base/result.hpp"
#include "qm/kube/client.hpp"

#include <string>

namespace qm::kube {

/// Finds the API server for a setting.
///
///   https://host:port               that address, without credentials; http:// likewise
///   in-cluster                      from the environment that Kubernetes sets in every pod
///   kubeconfig[:PATH][#CONTEXT]     as kubectl: PATH, else $KUBECONFIG, else ~/.kube/config
///   (empty)                         in-cluster inside a pod, else kubeconfig
///
/// Fails    kNotFound: no such environment or file; kInvalid: unreadable, or contradictory; kUnimplemented: an
///          unsupported authentication method (exec, auth-provider, a password). The message has file and field.
Result<ClientOptions> find_server(const std::string& setting);

/// The ServiceAccount of this process's pod: address from KUBERNETES_SERVICE_HOST and _PORT, token and CA from the
/// folder. The token is read again whenever the kubelet replaces it.
Result<ClientOptions> in_cluster(const std::string& folder = "/var/run/secrets/kubernetes.io/serviceaccount");

/// One context of a kubeconfig file; the current one if the name is empty.
Result<ClientOptions> from_kubeconfig(const std::string& path, const std::string& context = {});

}  // namespace qm::kube
