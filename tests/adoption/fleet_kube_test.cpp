// The fleet as the cluster. It has no scheduler: the test binds what waits for one.
#include "adoption.hpp"

#include <filesystem>

namespace qm::adoption {

Cluster* Cluster::shared(std::string* why_not) {
  static std::string reason;
  static const std::unique_ptr<Cluster> cluster = [] {
    auto made = std::make_unique<Cluster>();
    auto folder = std::make_shared<testing::TempDir>();
    testing::Process::Options options;
    options.argv = {std::string(QM_BIN_DIR) + "/qm-fleet",
                    "--dir",
                    folder->path(),
                    "--nodes",
                    "2",
                    "--shape",
                    "p5.48xlarge",
                    "--kubelet-differs",
                    "0",
                    "--factor",
                    "10"};
    options.output = folder->path() + "/fleet.log";
    if (!std::filesystem::exists(options.argv[0])) {
      reason = options.argv[0] + " is not built";
      return std::unique_ptr<Cluster>();
    }
    auto process = testing::Process::start(options);
    if (!process) {
      reason = process.error().to_string();
      return std::unique_ptr<Cluster>();
    }
    Json ports;
    (void)testing::wait_until([&] {
      if (!std::filesystem::exists(folder->path() + "/fleet.json")) return false;
      auto read = Json::parse(testing::read_file(folder->path() + "/fleet.json"));
      if (read) ports = std::move(*read);
      return ports.contains("kube");
    });
    made->options.server = "http://127.0.0.1:" + std::to_string(ports["kube"].integer());
    made->setting = made->options.server;
    made->clock = "scaled:" + folder->path() + "/clock";
    made->keep = {folder, std::shared_ptr<testing::Process>(std::move(*process))};
    return made;
  }();
  *why_not = reason;
  return cluster.get();
}

}  // namespace qm::adoption
