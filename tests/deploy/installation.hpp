#pragma once
#include "kubelet.hpp"
#include "qm/http/http.hpp"
#include "support.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace qm::deploy {

/// The chart as an operator installs it, on a real API server: its pods are processes (Kubelet), its database has a
/// role for each service, its users have tokens. Shared by all cases of the binary; created at the first use.
class Installation {
 public:
  /// Null with the reason if the host does not support it.
  static Installation* shared(std::string* why_not);
  /// Uninstalls the shared one, if it exists, because a release owns cluster-wide objects. The next shared() installs
  /// again.
  static void end();
  ~Installation();

  kube::Client& api() { return *client_; }
  Kubelet& kubelet() { return *kubelet_; }
  [[nodiscard]] const std::string& ns() const { return ns_; }          ///< the release's
  [[nodiscard]] const std::string& tenant() const { return tenant_; }  ///< its jobs are managed, and pass the webhooks
  [[nodiscard]] const std::string& node() const { return gpu_node_; }  ///< 8 GPUs, kwok's
  [[nodiscard]] const std::string& database() const { return database_; }  ///< as its owner
  [[nodiscard]] std::string account(const std::string& component) const {
    return fmt::format("system:serviceaccount:{}:qm-quartermaster-{}", ns_, component);
  }

  /// The dcgm-exporter value on every node: the last XID of its one GPU.
  std::atomic<int> xid = 0;
  /// A fault of the simulated cloud: POST /fleet/faults.
  Status fault(const std::string& json);

  Ran helm(std::vector<std::string> args);
  /// Runs Helm's verb with the chart, the values and additional arguments.
  Ran release(const std::string& verb, const std::vector<std::string>& more = {});
  Ran kubectl(std::vector<std::string> args);
  Ran kubectl_apply(const std::string& yaml);
  /// Runs qmctl in a pod of an operator of the suite, or of the given ServiceAccount.
  Kubelet::Ran qmctl(const std::vector<std::string>& args, const std::string& account = "operator");

  /// True if `count` pods run, all are ready and none is being deleted.
  bool all_ready(const std::string& component, std::size_t count);

  /// A ClusterQueue "research" of 8 GPUs with a LocalQueue "gpus", and a priority "urgent" that preempts; a queue
  /// "burst" whose nodes the cloud must provision first.
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
  /// The output of users and programs, for a failure.
  std::string logs();

  /// A call of the chart's accounts in the API server's audit log: verb, group, resource/subresource, name, code.
  struct Call {
    std::string component, verb, group, resource, ns, name;
    int code = 0;
  };
  /// Calls since the beginning; null if the server writes no audit log (QM_KUBE_AUDIT=1).
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
  std::vector<std::string> cordoned_;  ///< nodes that were schedulable before
  std::unique_ptr<http::Server> exporter_;
  std::unique_ptr<testing::Process> fleet_;
  Json ports_;
  std::map<std::uint64_t, std::streamoff> read_;  ///< of the audit logs, by inode: the read position
  std::vector<Call> calls_;
};

/// A test on the shared installation. A failure prints the logs of its pods.
class InstallationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    suite_ = Installation::shared(&why);
    // A test that has already failed cannot be skipped and would continue.
    ASSERT_TRUE(suite_ != nullptr || !HasFailure()) << why;
    if (suite_ == nullptr) GTEST_SKIP() << why;
  }
  void TearDown() override {
    if (suite_ != nullptr && HasFailure()) std::fprintf(stderr, "%s\n", suite_->logs().c_str());
  }
  Installation& suite() { return *suite_; }

 private:
  Installation* suite_ = nullptr;
};

}  // namespace qm::deploy
