// A real control plane, with its scheduler, and kwok for the nodes.
#include "adoption.hpp"

#include <cstdlib>

namespace qm::adoption {
namespace {

std::string env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Cluster* Cluster::shared(std::string* why_not) {
  static std::string reason;
  static const std::unique_ptr<Cluster> cluster = [] {
    if (env("QM_KUBE_URL").empty() || env("KUBECONFIG").empty()) {
      reason = "QM_KUBE_URL is not set; run ./qm peers kubernetes";
      return std::unique_ptr<Cluster>();
    }
    if (env("QM_KUBE_CONTROLLERS") != "1") {
      reason = "the controllers and kwok do not run";
      return std::unique_ptr<Cluster>();
    }
    auto made = std::make_unique<Cluster>();
    made->options.server = env("QM_KUBE_URL");
    made->options.token = env("QM_KUBE_TOKEN");
    made->options.ca_file = env("QM_KUBE_CA");
    made->setting = "kubeconfig:" + env("KUBECONFIG");
    made->clock = "system";
    made->scheduler = true;
    return made;
  }();
  *why_not = reason;
  return cluster.get();
}

}  // namespace qm::adoption
