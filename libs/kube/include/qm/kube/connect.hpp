#pragma once
#include "qm/base/result.hpp"
#include "qm/kube/client.hpp"

#include <string>

namespace qm::kube {

/// Finds the API server that a setting names.
///
///   https://host:port               that address, without credentials; http:// likewise
///   in-cluster                      as Kubernetes tells every pod
///   kubeconfig[:PATH][#CONTEXT]     as kubectl would: PATH, else $KUBECONFIG, else ~/.kube/config
///   (empty)                         in-cluster where that is so, else kubeconfig
///
/// Fails    kNotFound: nothing is there to read; kInvalid: unreadable, or contradicts itself; kUnimplemented: a way of
///          proving who we are that is not ours (exec, auth-provider, a password). The message names file and field.
Result<ClientOptions> find_server(const std::string& setting);

/// The ServiceAccount of the pod that we run in: address from KUBERNETES_SERVICE_HOST and _PORT, token and CA from the
/// folder. The token is read again whenever the kubelet replaces it.
Result<ClientOptions> in_cluster(const std::string& folder = "/var/run/secrets/kubernetes.io/serviceaccount");

/// One context of a kubeconfig file; without a name its current one.
Result<ClientOptions> from_kubeconfig(const std::string& path, const std::string& context = {});

}  // namespace qm::kube
