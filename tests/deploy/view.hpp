#pragma once
#include "qm/base/json.hpp"
#include "qm/kube/client.hpp"

#include <map>
#include <string>

namespace qm::deploy {

/// Addresses of Services by name.
using Names = std::map<std::string, std::string>;

/// What the processes of one pod see of the machine: the volumes of its manifest where they are mounted, and the
/// names of Services. Made in a folder; a script mounts it, in a mount namespace of its own, and runs the program.
struct View {
  std::string folder, node, address;

  /// Writes the volumes, with tokens made for the pod's ServiceAccount. kNotFound: a Secret or ConfigMap is not there.
  [[nodiscard]] Status fill(kube::Client& client, const Json& pod, const Names& services) const;
  /// The script of one container, which ends by becoming the program.
  [[nodiscard]] Result<std::string> script(kube::Client& client, const Json& pod, const Json& container,
                                           const kube::ClientOptions& server) const;
};

}  // namespace qm::deploy
