#pragma once
#include "qm/base/json.hpp"
#include "qm/cloud/aws.hpp"
#include "qm/http/http.hpp"
#include "qm/kube/client.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace qm::adoption {

/// A simulated fleet for this test.
struct Fleet {
  testing::TempDir dir;
  std::unique_ptr<testing::Process> process;
  Json ports;  ///< kube, aws, node
  [[nodiscard]] std::string url(const char* what) const {
    return "http://127.0.0.1:" + std::to_string(ports[what].integer());
  }
  static std::shared_ptr<Fleet> start(std::vector<std::string> flags, std::string* why_not);
};

/// The cluster that the services run against; fleet_kube_test.cpp and real_k8s_test.cpp supply one each.
struct Cluster {
  kube::ClientOptions options;
  std::string setting;                      ///< the value of --kube
  std::string clock;                        ///< the value of --clock
  std::string aws;                          ///< an EC2 and Auto Scaling endpoint
  std::string faults;                       ///< where the cloud takes orders to fail, if it does
  bool machines = false;                    ///< instances of `aws` become nodes without the test's help
  bool scheduler = false;                   ///< the cluster has a scheduler that binds pods of default-scheduler
  std::vector<std::shared_ptr<void>> keep;  ///< objects with the same lifetime
  /// Null if there is no cluster; `why_not` then has the reason.
  static Cluster* shared(std::string* why_not);
};

/// One program of the suite with its own database.
class Service {
 public:
  /// Waits until it is ready.
  Service(const std::string& name, const Cluster& cluster, const std::string& database,
          const std::vector<std::string>& sets, const std::vector<std::string>& flags = {});
  ~Service();
  [[nodiscard]] Json state();
  [[nodiscard]] std::string log() const;
  [[nodiscard]] std::string grpc() const { return "127.0.0.1:" + std::to_string(grpc_); }
  /// The value of a series on /metrics: `name{label="x"}`; nullopt if it does not exist.
  [[nodiscard]] std::optional<double> metric(const std::string& series);
  [[nodiscard]] std::string page(const std::string& path);

 private:
  testing::TempDir dir_;
  int http_ = testing::free_port(), grpc_ = testing::free_port();
  std::unique_ptr<testing::Process> process_;
};

inline constexpr const char* kPool = "karpenter.sh/nodepool";
inline constexpr const char* kType = "p5.48xlarge";  ///< of the instances that a test creates: 8 GPUs

/// A namespace for the test, and helper functions.
class Adoption : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  kube::Client& client() { return *client_; }
  Cluster& cluster() { return *cluster_; }
  const std::string& ns() const { return ns_; }
  std::unique_ptr<Service> service(const std::string& name, const std::vector<std::string>& sets,
                                   const std::vector<std::string>& flags = {});
  /// Applies our copies of another project's definitions (deploy/crds/ecosystem), if the server lacks them.
  void definitions(const std::string& file);
  /// Writes a lease as its holder renews it.
  void lease(const std::string& name, const std::string& holder);
  /// Unique in the cluster.
  std::string own(const std::string& stem) const { return stem + "-" + ns_; }

  Json create(const kube::Resource& r, Json object);
  Json get(const kube::Resource& r, const std::string& name);
  void label_namespace(const std::string& key, const std::string& value);
  /// Flavor, ClusterQueue with `gpus` GPUs, and LocalQueue "q" in the test's namespace, as objects of the cluster.
  void queues(int gpus);
  Json job(const std::string& name, int gpus, int run_s, const std::string& scheduler = "default-scheduler");
  Json pod(const std::string& name, int gpus, int run_s, const std::string& scheduler = "default-scheduler");
  static void gate(Json& pod);
  /// A NodePool of on-demand instances of kType that terminates empty ones at once.
  Json node_pool(const std::string& node_class, const Json& annotations = Json::object());
  /// Binds pending pods of the default scheduler if the cluster has none, or marks them as Unschedulable.
  void schedule();
  /// Activity of other controllers in the cluster.
  virtual void others() {}
  /// Waits for a condition, and schedules pods meanwhile.
  bool comes(const std::function<bool()>& condition, std::chrono::milliseconds timeout = std::chrono::seconds(60));
  bool has_event(const std::string& reason, const std::string& words);

  void set_no_capacity(const Json& pod);
  /// An instance with the label kPool = own("pool") that becomes a node, or a node that kwok simulates.
  struct Machine {
    std::string instance, node;
  };
  Machine create_instance(const std::string& name);
  void terminate_instance(const Machine& machine);
  void make_node(const std::string& name, const std::string& instance);
  cloud::Aws& aws() { return *aws_; }

  kube::Resource flavors_, cluster_queues_, local_queues_;

 private:
  Cluster* cluster_ = nullptr;
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<cloud::Aws> aws_;
  std::string ns_;
  std::vector<std::pair<kube::Resource, std::string>> cluster_wide_;
};

}  // namespace qm::adoption
