// A real control plane with its scheduler; kwok simulates the nodes.
#include "adoption.hpp"

#include <cstdlib>

namespace qm::adoption {
namespace {

std::string env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Four nodes of eight GPUs that kwok simulates; those of an earlier run are reused.
void ensure_nodes(const kube::ClientOptions& options) {
  kube::Client client(options);
  const auto room = Json::object({{"cpu", "96"}, {"memory", "1Ti"}, {"pods", "110"}, {"nvidia.com/gpu", "8"}});
  for (int i = 0; i < 4; ++i) {
    const auto name = fmt::format("adoption-{}", i);
    const auto made = client.create(
        kube::resources::kNodes, "",
        Json::object({{"apiVersion", "v1"},
                      {"kind", "Node"},
                      {"metadata", Json::object({{"name", name},
                                                 {"annotations", Json::object({{"kwok.x-k8s.io/node", "fake"}})},
                                                 {"labels", Json::object({{"kubernetes.io/hostname", name}})}})},
                      {"status", Json::object({{"capacity", room}, {"allocatable", room}})}}));
    EXPECT_TRUE(made || made.error().code == Code::kAlreadyExists) << made.error().to_string();
  }
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
    ensure_nodes(made->options);
    // A simulated cloud in addition: the test turns its instances into nodes.
    if (const auto cloud = Fleet::start({"--nodes", "0", "--factor", "1"}, &reason)) {
      made->aws = cloud->url("aws");
      made->faults = cloud->url("node");
      made->keep = {cloud};
    }
    return made;
  }();
  *why_not = reason;
  return cluster.get();
}

}  // namespace qm::adoption
