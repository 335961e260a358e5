#pragma once
#include "qm/base/json.hpp"
#include "qm/kube/client.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace qm::deploy {

/// A node of a real cluster whose pods are processes of this host: it does the work of kubelet and kube-proxy for the
/// pods that are bound to it, according to their manifests.
///
///   programs    `command` and `args` from QM_BIN_DIR, with `env` of values, fields and Secrets, and no other variables
///   files       Secrets, ConfigMaps and projected tokens are at their mount paths: each process has its own view of
///               /etc and /run; /etc/hosts has the Services of the namespace
///   network     a pod has a loopback address instead of 0.0.0.0, so that all have port 7100; a Service has one too,
///               and its connections go to the pods that are ready
///   life        readiness is probed more often than the probe specifies, becomes false as it specifies, and is
///               written to the pod's status. A process that ends is started again. A deleted pod gets SIGTERM at
///               once, or after the sleep of its preStop, and is removed from its Service shortly after the deletion
///
/// Not done    images, limits, users, read-only roots, separate /tmp, liveness, volumes that change.
/// Threads     any.
class Kubelet {
 public:
  /// Creates the node and its lease; pods and Services are those of the namespace.
  Kubelet(kube::ClientOptions server, std::string node, std::string ns);
  ~Kubelet();  ///< ends the processes and deletes the node

  /// Empty, or why processes cannot have their own view of files here.
  static std::string why_not();
  /// The address of a Service, allocated at the first call.
  std::string address_of(const std::string& service);

  struct Seen {
    std::string name, component, address;  ///< of the pod; its label app.kubernetes.io/component; its address
    int pid = 0;                           ///< of its first container; 0 = not running
    bool ready = false, ending = false;
    int restarts = 0;
  };
  [[nodiscard]] std::vector<Seen> pods(const std::string& component = {}) const;
  /// A signal to the first container of a pod.
  void signal(const std::string& pod, int number);
  /// The logs of a component's processes, including pods that are gone.
  [[nodiscard]] std::string logs(const std::string& component) const;

  struct Ran {
    int code = -1;
    std::string output;
  };
  /// Runs a program to its end with the files and names of a pod of this template ({"spec": ...} with one container),
  /// without creating the pod in the API server.
  Ran exec(const Json& pod, const std::vector<std::string>& argv);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::deploy
