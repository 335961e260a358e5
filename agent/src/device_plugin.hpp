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

/// Gives this machine's GPUs to pods through its kubelet, in the place of the vendor's device plugin, so that each pod gets
/// the devices that placement assigned to it. Which assignments are placement's: drop_unusable() in claims.hpp.
///
/// How      the kubelet names no pod. Asked which devices it should take, the plugin names those of the oldest pod of this
///          node that waits for so many, and the kubelet takes what is named unless its topology manager may not. What it
///          took is what the container gets: the plugin never hands out another device than the kubelet believes, or
///          the kubelet would give that one to somebody else. Where it is not the assignment of anybody who waits, the
///          pod runs with it and the difference is counted and shown by pod-resources; with `strict` the pod is refused.
/// Health   a GPU that left the driver's list, or is named faulty(), is unhealthy until it is back.
/// Restart  a kubelet that starts again makes its socket anew and clears its folder: then all is served and registered anew.
/// Bound    a kubelet waits at most `patience` for a pod that the agent has not heard of yet.
/// Threads  start and stop from one; the rest any.
class DevicePlugin {
 public:
  struct Options {
    std::string dir;  ///< the kubelet's folder, "/var/lib/kubelet/device-plugins"
    std::string node;
    Sharing sharing = {};
    std::string mps = "/run/nvidia/mps";  ///< where NVIDIA's MPS daemon of the machine has its folders
    bool strict = false;                  ///< refuse a pod rather than give it other devices than assigned
    /// Only pods that name one of these have their assignment from placement.
    std::set<std::string> schedulers = {std::string(words::kScheduler)};
    SteadyDuration look = std::chrono::milliseconds(500);  ///< between looks at the kubelet's socket
    SteadyDuration inventory = std::chrono::seconds(5);    ///< between looks at the devices
    SteadyDuration patience = std::chrono::milliseconds(2000);
  };
  /// `devices` and `pods` outlive it.
  DevicePlugin(Options options, DeviceSource& devices, const Pods& pods, metrics::Registry& registry);
  ~DevicePlugin();
  void start();
  void stop();

  /// These GPUs do not work, by index; all others do.
  void faulty(std::set<std::int32_t> gpus);
  /// What the kubelet says that pods have, by "namespace/name": ids.
  void given(const std::map<std::string, std::set<std::string>>& by_pod);
  [[nodiscard]] Json state() const;

 private:
  class Service;
  struct Seen {  // a unit, and whether its GPU is there
    Unit unit;
    bool there = true;
    friend bool operator==(const Seen&, const Seen&) = default;
  };
  struct Counters {
    metrics::Counter honoured, free, differs, refused, registrations;
    std::function<metrics::Counter(const std::string& reason)> unusable;
  };

  void run();
  void look_at_devices();
  void look_at_kubelet();
  [[nodiscard]] bool tell_kubelet(const std::string& resource, const std::string& endpoint) const;
  [[nodiscard]] std::string socket_of(const std::string& resource) const;
  std::vector<Claim> claims(const std::string& resource);
  void note_unusable(const std::vector<Claim>& claims, const std::map<std::string, std::string>& unusable);
  [[nodiscard]] GpuOf gpus(const std::string& resource) const;
  [[nodiscard]] GpuOf gpus_of(const std::string& resource) const;  // under the mutex

  Options options_;
  DeviceSource& devices_;
  const Pods& pods_;
  Counters counters_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, std::map<std::string, Seen>> units_;  // resource -> id
  std::set<std::int32_t> faulty_;
  std::map<std::string, std::map<std::string, std::set<std::string>>> served_;  // resource -> uid of a claim -> ids
  std::map<std::string, std::string> unusable_;  // uid of a claim -> why its assignment does not count
  std::uint64_t version_ = 0;                    // of what ListAndWatch says
  bool stopping_ = false;
  std::map<std::string, std::unique_ptr<Service>> services_;  // by resource; the thread's own
  std::string kubelet_;                                       // marks its socket; empty = it is not there
  SteadyInstant looked_{};
  std::thread thread_;
};

}  // namespace qm::agent
