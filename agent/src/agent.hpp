#pragma once
#include "checkpoints.hpp"
#include "device_plugin.hpp"
#include "devices.hpp"
#include "facts.hpp"
#include "link.hpp"
#include "pod_resources.hpp"
#include "pods.hpp"
#include "qm/base/json.hpp"
#include "qm/clock/clock.hpp"
#include "qm/kube/client.hpp"
#include "qm/metrics/metrics.hpp"
#include "qm/model/resources.hpp"
#include "qm/rpc/process.hpp"
#include "sources.hpp"
#include "workers.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace qm::agent {

struct Options {
  std::vector<std::string> nodes;  ///< these, or
  std::set<std::string> except;    ///< every node of the cluster but these
  kube::ClientOptions kube;
  std::string telemetry;  ///< host:port
  std::string dcgm = "http://127.0.0.1:9400/metrics", imds = "http://169.254.169.254";
  rpc::ClientSecurity security;  ///< toward the telemetry service
  Duration sample_period = std::chrono::seconds(60), notice_period = std::chrono::seconds(10);
  // Of the one machine that it runs on; empty = not used.
  std::string pod_resources;  ///< the kubelet's socket that tells who holds which device
  Duration pod_resources_period = std::chrono::seconds(2);
  std::string device_plugin;  ///< the folder of the kubelet's plugins
  Sharing device_plugin_sharing;
  std::string device_plugin_mps = "/run/nvidia/mps";  ///< the MPS daemon's folders, where shares run under it
  bool device_plugin_strict = false;
  std::set<std::string> device_plugin_schedulers = {std::string(words::kScheduler)};
  std::string sysfs;               ///< the kernel's /sys: the node's object is told what the machine is made of
  std::string kubelet_config;      ///< the kubelet's configuration file
  std::string kubelet_wanted;      ///< the one that it should have; in what it differs is said
  std::string nccl_topology;       ///< a file that is written for NCCL
  std::string model_cache;         ///< a folder with one for each model that is there
  std::string checkpoint_gateway;  ///< takes checkpoint orders in place of the pods; see checkpoint_target()
  Duration probe_period = std::chrono::minutes(10);

  /// kInvalid names the setting that is missing or cannot be read.
  static Result<Options> from_settings(const rpc::Settings& settings);
};

/// Speaks for one or several nodes: samples, facts and checkpoint orders.
///
/// Each node has paced tasks in domain time: a page, (spot only) a look at the metadata, and where it runs on the machine itself what the
/// kubelet gave and what the machine is made of. Pods of other nodes are not read: each node has a list and a watch of its own, and an
/// agent for all nodes but some has one of all bound pods but theirs. Nodes come and go with
/// Kubernetes where the options say so. Nothing is kept on disk: what a killed agent had not delivered still stands where
/// it was read, and open orders are repeated.
/// Threads  start and stop from one; the rest is its own.
class Agent {
 public:
  Agent(Options options, const DomainClock& clock, metrics::Registry& registry);
  /// With other sources than HTTP.
  Agent(Options options, const DomainClock& clock, metrics::Registry& registry, std::unique_ptr<PageSource> pages,
        std::unique_ptr<MetadataSource> metadata, std::unique_ptr<DeviceSource> devices = nvml_devices());
  ~Agent();
  void start();
  void stop();

  /// True while the stream stands.
  [[nodiscard]] bool ready() const { return link_.up(); }
  [[nodiscard]] Json state() const;

  static constexpr int kThreads = 4;

 private:
  struct Meters;
  void node_changed(const std::string& node, bool gone);
  [[nodiscard]] std::string boot_of(const std::string& node) const;
  void add_node(const std::string& node);
  void remove_node(const std::string& node);
  void tell_nodes();
  [[nodiscard]] std::uint64_t pod_objects() const;
  void watch_pods(const std::string& node, const std::string& fields);
  struct View;
  void scrape(View& view, const std::string& node);
  void ask_kubelet(View& view, const std::string& node);
  void probe(const std::string& node);
  void order(const pb::CheckpointOrder& order);

  Options options_;
  const DomainClock& clock_;
  std::unique_ptr<PageSource> pages_;
  std::unique_ptr<MetadataSource> metadata_;
  std::unique_ptr<DeviceSource> devices_;
  std::unique_ptr<HoldingSource> holding_;  // null = not asked
  Facts facts_;
  Pods pods_;
  std::unique_ptr<Meters> meters_;
  Checkpoints checkpoints_;
  Link link_;
  std::unique_ptr<DevicePlugin> plugin_;  // null = not used
  Pacer pacer_;
  mutable std::mutex mutex_;
  std::set<std::string> nodes_;
  std::map<std::string, std::string> boots_;  // node -> its kernel's boot id, where it is known
  bool nodes_listed_ = false;
  std::unique_ptr<kube::Client> kube_;
  std::vector<std::unique_ptr<kube::Informer>> pod_informers_;
  std::unique_ptr<kube::Informer> node_informer_;
};

}  // namespace qm::agent
