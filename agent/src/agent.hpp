#pragma once
#include "checkpoints.hpp"
#include "device_plugin.hpp"
#include "devices.hpp"
#include "facts.hpp"
#include "link.hpp"
#include "notice_sources.hpp"
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
  std::vector<std::string> nodes;  ///< these nodes, or
  std::set<std::string> except;    ///< every node of the cluster except these
  kube::ClientOptions kube;
  std::string telemetry;  ///< host:port
  std::string dcgm = "http://127.0.0.1:9400/metrics", imds = "http://169.254.169.254";
  Cloud cloud = Cloud::kAws;
  Duration lifecycle_time = std::chrono::minutes(2);  ///< until an Auto Scaling group terminates an instance
  rpc::ClientSecurity security;                       ///< toward the telemetry service
  Duration sample_period = std::chrono::seconds(60), notice_period = std::chrono::seconds(1);
  // Settings for the one node that the agent runs on; empty = not used.
  std::string pod_resources;  ///< the kubelet's pod-resources socket, which lists the devices of each pod
  Duration pod_resources_period = std::chrono::seconds(2);
  std::string device_plugin;  ///< the kubelet's device-plugin folder
  Sharing device_plugin_sharing;
  std::string device_plugin_mps = "/run/nvidia/mps";  ///< the MPS daemon's folders, if shares run under MPS
  bool device_plugin_strict = false;
  std::set<std::string> device_plugin_schedulers = {std::string(words::kScheduler)};
  std::string sysfs;               ///< the kernel's /sys: the source of the node report
  std::string kubelet_config;      ///< the kubelet's configuration file
  std::string kubelet_wanted;      ///< the configuration that it should have; differences are reported
  std::string nccl_topology;       ///< the topology file that is written for NCCL
  std::string model_cache;         ///< a folder with one subfolder for each cached model
  std::string kubelet_pods;        ///< the kubelet's folder of pods, for checkpoint orders by file
  std::string proc;                ///< the host's /proc, for checkpoint orders by signal
  std::string checkpoint_gateway;  ///< receives checkpoint orders instead of the pods; see checkpoint_target()
  Duration probe_period = std::chrono::minutes(10);

  /// kInvalid names the setting that is missing or cannot be read.
  static Result<Options> from_settings(const rpc::Settings& settings);
};

/// Reports samples and facts of one or several nodes, and carries out checkpoint orders.
///
/// Each node has periodic tasks in domain time: scrape the page, read the metadata (spot instances only). On its own
/// node the agent also reads the kubelet's devices and the hardware. Pods of other nodes are not read: each node has
/// its own list and watch of pods. An agent for all nodes except some has one list and watch of all bound pods except
/// theirs, and adds and removes nodes as Kubernetes does. Nothing is stored on disk: facts that a killed agent had
/// not delivered are read from their source again, and open orders are repeated.
/// Threads  start and stop from one thread; the agent owns its other threads.
class Agent {
 public:
  Agent(Options options, const DomainClock& clock, metrics::Registry& registry);
  /// With other sources than HTTP, for tests.
  Agent(Options options, const DomainClock& clock, metrics::Registry& registry, std::unique_ptr<PageSource> pages,
        std::unique_ptr<MetadataSource> metadata, std::unique_ptr<DeviceSource> devices = nvml_devices());
  ~Agent();
  void start();
  void stop();

  /// True while the stream to the telemetry service is connected.
  [[nodiscard]] bool ready() const { return link_.up(); }
  [[nodiscard]] Json state() const;

  static constexpr int kThreads = 4;
  static constexpr Duration kReadAgain = std::chrono::milliseconds(20);

 private:
  struct Meters;
  void node_changed(const std::string& node, bool gone);
  [[nodiscard]] std::string boot_of(const std::string& node) const;
  void add_node(const std::string& node);
  [[nodiscard]] bool waits_for_notices() const;
  [[nodiscard]] std::unique_ptr<NoticeSource> notice_source(const std::string& node);
  void remove_node(const std::string& node);
  void publish_nodes();
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
  std::unique_ptr<HoldingSource> holding_;  // null = the kubelet is not queried
  Facts facts_;
  Pods pods_;
  std::unique_ptr<Meters> meters_;
  Checkpoints checkpoints_;
  Link link_;
  std::unique_ptr<DevicePlugin> plugin_;  // null = not used
  Pacer pacer_;
  mutable std::mutex mutex_;
  std::set<std::string> nodes_;
  std::map<std::string, std::string> boots_;  // node -> its kernel's boot id, if known
  bool nodes_listed_ = false;
  std::unique_ptr<kube::Client> kube_;
  std::vector<std::unique_ptr<kube::Informer>> pod_informers_;
  std::unique_ptr<kube::Informer> node_informer_;
};

}  // namespace qm::agent
