#pragma once
#include "qm/base/json.hpp"
#include "qm/kube/client.hpp"

#include <map>
#include <string>

namespace qm::deploy {

/// Addresses of Services by name.
using Names = std::map<std::string, std::string>;

/// The files that the processes of one pod see: the volumes of its manifest at their mount paths, and the names of
/// Services. Built in a folder; a script mounts it in its own mount namespace and runs the program.
struct View {
  std::string folder, node, address;

  /// Writes the volumes, with tokens created for the pod's ServiceAccount. kNotFound: a Secret or ConfigMap does not
  /// exist.
  [[nodiscard]] Status fill(kube::Client& client, const Json& pod, const Names& services) const;
  /// The script of one container, which finally executes the program.
  [[nodiscard]] Result<std::string> script(kube::Client& client, const Json& pod, const Json& container,
                                           const kube::ClientOptions& server) const;
};

}  // namespace qm::deploy
