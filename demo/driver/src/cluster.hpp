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

/// Runs a command line in a shell and returns its output. kUnavailable with the output if it fails.
Result<std::string> output_of(const std::string& command);

/// A real Kubernetes control plane under the suite, instead of the fleet's API: one of our own
/// (tools/peers/kubernetes.sh), or an existing one.
///
/// The fleet remains the cloud. Its instances become Node objects here, and kwok simulates their kubelets. When an
/// instance ends its Node is deleted, and when a GPU fails the Node's allocatable is reduced. A witness records the
/// jobs, pods and claims that the server shows.
class RealCluster {
 public:
  /// `setting`: "peer", or kubeconfig:PATH as the services accept it.
  static Result<std::unique_ptr<RealCluster>> open(const std::string& setting, const std::string& dir);
  ~RealCluster();

  /// The value of --kube of the services.
  [[nodiscard]] const std::string& setting() const { return setting_; }
  [[nodiscard]] kube::Client& client() { return *client_; }
  [[nodiscard]] witness::Witness& witness() { return *witness_; }
  /// Copies the instances of the fleet and begins to watch; returns when `nodes` are Ready. Only for a run that is
  /// judged the witness records jobs, pods and claims.
  Status begin(const std::string& fleet_kube, std::size_t nodes, bool judged);
  Status make_namespace(const std::string& name);
  /// True if a script can stop and start the API server.
  [[nodiscard]] bool breakable() const { return !script_.empty(); }
  Status kill_api();
  Status restart_api();
  /// The history so far; one line for each event.
  [[nodiscard]] std::string history() const;
  /// Deletes what was created on an existing server: jobs and namespaces of the run, and the nodes.
  void clean();
  void stop();
  /// Stops the control plane that this process started, if any: its parts would otherwise outlive the process. Any
  /// thread.
  static void end_own();

 private:
  RealCluster() = default;
  Status install_kinds();
  void carry(const Json& node, bool deleted);
  void watch(bool judged);

  std::string setting_, script_, history_file_;
  bool own_ = false;  ///< started and stopped by this process
  kube::ClientOptions options_;
  std::unique_ptr<kube::Client> client_, fleet_;
  mutable std::ofstream history_out_;
  mutable std::mutex history_mutex_;
  std::unique_ptr<witness::Witness> witness_;
  std::vector<std::unique_ptr<kube::Informer>> informers_;
  std::atomic<bool> stopping_ = false;
  std::mutex names_mutex_;
  std::vector<std::string> namespaces_;
  std::map<std::string, std::string> carried_;  ///< node -> its last written allocatable
  std::atomic<std::size_t> ready_ = 0;
};

}  // namespace qm::demo
