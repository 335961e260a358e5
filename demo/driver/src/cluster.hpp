#pragma once
#include "options.hpp"
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/kube/client.hpp"
#include "qm/witness/witness.hpp"

#include <atomic>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace qm::demo {

/// Runs a command line in a shell; its output. kUnavailable with the output where it fails.
Result<std::string> output_of(const std::string& command);

/// A real Kubernetes control plane under the suite, in the place of the fleet's API: one of our own
/// (tools/peers/kubernetes.sh), or one that is there already.
///
/// The fleet stays the cloud. Its machines become Node objects here, with kwok in the place of their kubelets; a
/// machine that ends takes its Node with it, and a GPU that fails makes the Node's allocatable smaller. A witness
/// writes down what the server shows of jobs, pods and claims.
class RealCluster {
 public:
  /// `setting`: "peer", or kubeconfig:PATH as services take it.
  static Result<std::unique_ptr<RealCluster>> open(const std::string& setting, const std::string& dir, bool scheduler);
  ~RealCluster();

  /// For --kube of the services.
  [[nodiscard]] const std::string& setting() const { return setting_; }
  [[nodiscard]] kube::Client& client() { return *client_; }
  [[nodiscard]] witness::Witness& witness() { return *witness_; }
  /// Copies the machines of the fleet and begins to watch; returns when `nodes` are Ready.
  Status begin(const std::string& fleet_kube, std::size_t nodes);
  Status make_namespace(const std::string& name);
  /// True where a script is known that ends and starts the API server.
  [[nodiscard]] bool breakable() const { return !script_.empty(); }
  Status kill_api();
  Status restart_api();
  /// What was written so far; one line a fact.
  [[nodiscard]] std::string history() const;
  /// Takes back what was made on a server that stays: jobs and namespaces of the run, and the nodes.
  void clean();
  void stop();
  /// Ends the control plane that this process began, if any: its parts outlive the process otherwise. Any thread.
  static void end_own();

 private:
  RealCluster() = default;
  Status install_kinds();
  void carry(const Json& node, bool deleted);
  void watch();

  std::string setting_, script_, history_file_;
  bool own_ = false;  ///< started here, ended here
  kube::ClientOptions options_;
  std::unique_ptr<kube::Client> client_, fleet_;
  mutable std::ofstream history_out_;
  mutable std::mutex history_mutex_;
  std::unique_ptr<witness::Witness> witness_;
  std::vector<std::unique_ptr<kube::Informer>> informers_;
  std::atomic<bool> stopping_ = false;
  std::mutex names_mutex_;
  std::vector<std::string> namespaces_;
  std::map<std::string, std::string> carried_;  ///< node -> allocatable, as it was written
  std::atomic<std::size_t> ready_ = 0;
};

}  // namespace qm::demo
