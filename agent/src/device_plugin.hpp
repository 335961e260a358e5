#pragma once
#include "claims.hpp"
#include "devices.hpp"
#include "pods.hpp"
#include "qm/base/json.hpp"
#include "qm/metrics/metrics.hpp"
#include "qm/model/resources.hpp"

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace qm::agent {

/// The device plugin of this node: replaces the vendor's plugin, so that each pod receives the devices that placement
/// assigned to it. For the validation of assignments see drop_unusable() in claims.hpp.
///
/// How      the kubelet names no pod. When it requests preferred devices, the plugin returns those of the oldest pod
///          of this node that waits for as many, and the kubelet allocates them unless its Topology Manager forbids
///          it. The container receives what the kubelet allocated: with another device the kubelet's record would be
///          wrong and it would allocate the same device twice. If the devices are not the assignment of a waiting
///          pod, the pod runs with them, and the difference is counted and visible in pod-resources; with `strict`
///          the pod is refused.
/// Health   a GPU that is missing from the driver's list, or is named by faulty(), is unhealthy until it is back.
/// Restart  a kubelet that restarts creates its socket again and clears its folder; the plugin then serves and
///          registers all resources again.
/// Bound    a kubelet waits at most `patience` for a pod that the agent has not received yet.
/// Threads  start and stop from one thread; the rest from any.
class DevicePlugin {
 public:
  struct Options {
    std::string dir;  ///< the kubelet's device-plugin folder, "/var/lib/kubelet/device-plugins"
    std::string node;
    Sharing sharing = {};
    std::string mps = "/run/nvidia/mps";  ///< the folder of the node's MPS daemon
    bool strict = false;                  ///< refuse a pod whose allocation differs from its assignment
    /// An assignment is accepted only for pods that name one of these schedulers.
    std::set<std::string> schedulers = {std::string(words::kScheduler)};
    SteadyDuration look = std::chrono::milliseconds(500);  ///< between checks of the kubelet's socket
    SteadyDuration inventory = std::chrono::seconds(5);    ///< between reads of the devices
    SteadyDuration patience = std::chrono::milliseconds(2000);
  };
  /// `devices` and `pods` must outlive the plugin.
  DevicePlugin(Options options, DeviceSource& devices, const Pods& pods, metrics::Registry& registry);
  ~DevicePlugin();
  void start();
  void stop();

  /// Marks these GPUs as unhealthy, by index, and all others as healthy.
  void faulty(std::set<std::int32_t> gpus);
  /// Records the devices that the kubelet reports for its pods, by "namespace/name": ids.
  void given(const std::map<std::string, std::set<std::string>>& by_pod);
  [[nodiscard]] Json state() const;

 private:
  class Service;
  struct Seen {  // a unit, and whether its GPU is present
    Unit unit;
    bool there = true;
    friend bool operator==(const Seen&, const Seen&) = default;
  };
  struct Counters {
    metrics::Counter honored, free, differs, refused, registrations;
    std::function<metrics::Counter(const std::string& reason)> unusable;
  };

  void run();
  void look_at_devices();
  void look_at_kubelet();
  [[nodiscard]] bool register_with_kubelet(const std::string& resource, const std::string& endpoint) const;
  [[nodiscard]] std::string socket_of(const std::string& resource) const;
  std::vector<Claim> claims(const std::string& resource);
  void note_unusable(const std::vector<Claim>& claims, const std::map<std::string, std::string>& unusable);
  [[nodiscard]] GpuOf gpus(const std::string& resource) const;
  [[nodiscard]] GpuOf gpus_of(const std::string& resource) const;  // requires the mutex

  Options options_;
  DeviceSource& devices_;
  const Pods& pods_;
  Counters counters_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, std::map<std::string, Seen>> units_;  // resource -> id
  std::set<std::int32_t> faulty_;
  std::map<std::string, std::map<std::string, std::set<std::string>>> served_;  // resource -> uid of a claim -> ids
  std::map<std::string, std::string> unusable_;  // uid of a claim -> why its assignment was dropped
  std::uint64_t version_ = 0;                    // of the state that ListAndWatch publishes
  bool stopping_ = false;
  std::map<std::string, std::unique_ptr<Service>> services_;  // by resource; used only by the plugin's thread
  std::string kubelet_;                                       // identifies its socket; empty = no socket exists
  SteadyInstant looked_{};
  std::thread thread_;
};

}  // namespace qm::agent
