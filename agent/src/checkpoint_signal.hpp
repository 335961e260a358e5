#pragma once
#include "qm/base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace qm::agent {

/// The number of a signal by its name, "SIGUSR1"; 0 = unknown.
[[nodiscard]] int signal_number(std::string_view name);

/// Processes with number 1 in the containers of a pod, without its sandbox. `proc`: the host's /proc.
///
/// Source   the cgroup of a container has the uid of its pod, with '-' or '_', under cgroup v1 and v2 with either driver
///          of the kubelet; NSpid of proc(5) is the number of a process in each of its pid namespaces.
/// Cost     one pass over the processes of the node.
[[nodiscard]] std::vector<int> first_processes(const std::string& proc, const std::string& pod_uid);

/// Sends the signal to these processes of the pod.
///
/// Fails    kNotFound: the pod has none on this node; kPermissionDenied: the agent may not signal them, because it does
///          not run in the host's pid namespace or as root.
Status signal_pod(const std::string& proc, const std::string& pod_uid, std::string_view signal);

}  // namespace qm::agent
