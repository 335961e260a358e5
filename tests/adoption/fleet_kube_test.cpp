// The fleet as the cluster. It has no scheduler: the test binds pending pods.
#include "adoption.hpp"

namespace qm::adoption {

Cluster* Cluster::shared(std::string* why_not) {
  static std::string reason;
  static const std::unique_ptr<Cluster> cluster = [] {
    const auto fleet = Fleet::start(
        {"--nodes", "2", "--shape", "p5.48xlarge", "--kubelet-differs", "0", "--factor", "10", "--boot-seconds", "20"},
        &reason);
    if (!fleet) return std::unique_ptr<Cluster>();
    auto made = std::make_unique<Cluster>();
    made->options.server = fleet->url("kube");
    made->setting = made->options.server;
    made->clock = "scaled:" + fleet->dir.path() + "/clock";
    made->aws = fleet->url("aws");
    made->machines = true;
    made->keep = {fleet};
    return made;
  }();
  *why_not = reason;
  return cluster.get();
}

}  // namespace qm::adoption
