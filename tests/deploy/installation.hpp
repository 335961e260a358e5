#pragma once
#include "kubelet.hpp"
#include "qm/http/http.hpp"
#include "support.hpp"

#include <fmt/format.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace qm::deploy {

/// The chart as an operator installs it, on a real API server: its pods are processes (Kubelet), its database has a
/// role for each service, its people come with tokens. One for all cases of the binary; made by the first that asks.
class Installation {
 public:
  /// Null with the reason where the machine cannot have it.
  static Installation* shared(std::string* why_not);
  /// Uninstalls the shared one, where there is one: a release owns objects of the whole cluster. The next shared()
  /// installs again.
  static void end();
  ~Installation();

  kube::Client& api() { return *client_; }
  Kubelet& kubelet() { return *kubelet_; }
  [[nodiscard]] const std::string& ns() const { return ns_; }          ///< the release's
  [[nodiscard]] const std::string& tenant() const { return tenant_; }  ///< whose jobs are ours, and pass the webhooks
  [[nodiscard]] const std::string& node() const { return gpu_node_; }  ///< 8 GPUs, kwok's
  [[nodiscard]] const std::string& database() const { return database_; }  ///< as its owner
  [[nodiscard]] std::string account(const std::string& component) const {
    return fmt::format("system:serviceaccount:{}:qm-quartermaster-{}", ns_, component);
  }

  /// What dcgm-exporter says on every node: the last XID of its one GPU.
  std::atomic<int> xid = 0;
  /// An order to what stands in for the cloud: POST /fleet/faults.
  Status fault(const std::string& json);

  Ran helm(std::vector<std::string> args);
  /// Helm's verb with the chart, the values and what is added.
  Ran release(const std::string& verb, const std::vector<std::string>& more = {});
  Ran kubectl(std::vector<std::string> args);
  Ran kubectl_apply(const std::string& yaml);
  /// qmctl in a pod of an operator of the suite, or of the ServiceAccount given.
  Kubelet::Ran qmctl(const std::vector<std::string>& args, const std::string& account = "operator");

  /// So many pods run, all of them ready and none on its way out.
  bool all_ready(const std::string& component, std::size_t count);

  /// A ClusterQueue "research" of 8 GPUs with a LocalQueue "gpus", and a priority "urgent" that preempts; a queue
  /// "burst" whose machines the cloud has yet to bring.
  static const char* const kQueues;
  /// A Job of one pod in the tenant's namespace, as kubectl sends it.
  [[nodiscard]] static std::string job(const std::string& name, int gpus, int run_seconds,
                                       const std::string& priority = {}, const std::string& queue = "gpus");
  Json get_job(const std::string& name);
  bool finished(const std::string& name);
  /// Ends the pods of a Job successfully now, before their run time is over.
  void complete(const std::string& job);
  /// Names of the pods of a Job that have a node.
  std::vector<std::string> bound(const std::string& job);
  /// What people and programs said, for a failure.
  std::string told();

  /// What the audit log of the API server has of the chart's accounts: verb, group, resource/subresource, name, code.
  struct Call {
    std::string component, verb, group, resource, ns, name;
    int code = 0;
  };
  /// Calls since the beginning; null where the server writes no audit log (QM_KUBE_AUDIT=1).
  const std::vector<Call>* audit();

 private:
  Installation() = default;
  static std::unique_ptr<Installation> one;
  Status make();
  void note(const std::string& line);
  Status database();
  Status cloud();
  Status world();
  Status cordon(const std::string& node, bool cordoned);
  [[nodiscard]] std::string values() const;

  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<Kubelet> kubelet_;
  testing::TempDir folder_;
  std::string ns_, tenant_, gpu_node_, database_;
  std::vector<std::string> cordoned_;  ///< nodes that others left schedulable
  std::unique_ptr<http::Server> exporter_;
  std::unique_ptr<testing::Process> fleet_;
  Json ports_;
  std::map<std::uint64_t, std::streamoff> read_;  ///< of the audit logs, by inode: how far they are read
  std::vector<Call> calls_;
};

}  // namespace qm::deploy
