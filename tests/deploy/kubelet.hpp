#pragma once
#include "qm/base/json.hpp"
#include "qm/kube/client.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace qm::deploy {

/// A node of a real cluster whose pods are processes of this machine: it does what kubelet and kube-proxy do for the
/// pods that are bound to it, as their manifests say.
///
///   programs    `command` and `args` from QM_BIN_DIR, with `env` of values, fields and Secrets, and nothing of ours
///   files       Secrets, ConfigMaps and projected tokens stand where they are mounted: each process has a view of
///   its own
///               of /etc and /run; /etc/hosts knows the Services of the namespace
///   network     a pod has an address on loopback, in the place of 0.0.0.0, so that all have port 7100; a Service has
///   one
///               too, and its connections go to the pods that are ready
///   life        readiness is asked more often than the probe says, lost as it says, and written into the pod's
///   status; a
///               process that ends is started again; a pod that is deleted gets SIGTERM at once, or after the sleep
///               of its preStop, and is out of its Service a moment after the deletion
///
/// Not done    images, limits, users, read-only roots, /tmp of its own, liveness, volumes that change.
/// Threads     any.
class Kubelet {
 public:
  /// Makes the node and its lease; pods and Services are those of the namespace.
  Kubelet(kube::ClientOptions server, std::string node, std::string ns);
  ~Kubelet();  ///< ends the processes and takes the node away

  /// Empty, or why processes cannot have a view of their own here.
  static std::string why_not();
  /// Where a Service is from the first ask on.
  std::string address_of(const std::string& service);

  struct Seen {
    std::string name, component, address;  ///< of the pod; its label app.kubernetes.io/component; where it is
    int pid = 0;                           ///< of its first container; 0 = none runs
    bool ready = false, ending = false;
    int restarts = 0;
  };
  [[nodiscard]] std::vector<Seen> pods(const std::string& component = {}) const;
  /// A signal to the first container of a pod.
  void signal(const std::string& pod, int number);
  /// What the processes of a component have said, those of pods that are gone too.
  [[nodiscard]] std::string logs(const std::string& component) const;

  struct Ran {
    int code = -1;
    std::string output;
  };
  /// Runs a program to its end with the files and the names of a pod of this template ({"spec": ...} with one
  /// container), without the API server knowing of it.
  Ran exec(const Json& pod, const std::vector<std::string>& argv);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::deploy
