#pragma once
#include "devices.hpp"
#include "kubelet/deviceplugin.grpc.pb.h"
#include "kubelet/podresources.grpc.pb.h"
#include "qm/testing/testing.hpp"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace qm::agent::testing {

/// The device manager of a kubelet, as far as a plugin can observe it. It accepts registrations on its socket and
/// follows ListAndWatch of each resource. To allocate devices to a pod it lets the plugin choose among the healthy
/// free ones, unless the test sets the choice of the Topology Manager. It answers pod-resources on a second socket.
class MockKubelet final : public v1beta1::Registration::Service, public v1::PodResourcesLister::Service {
 public:
  explicit MockKubelet(std::string dir) : dir_(std::move(dir)) { start(); }
  ~MockKubelet() override { stop(); }
  MockKubelet(const MockKubelet&) = delete;
  MockKubelet& operator=(const MockKubelet&) = delete;

  [[nodiscard]] std::string resources_socket() const { return dir_ + "/resources.sock"; }

  void stop() {
    if (server_) server_->Shutdown(std::chrono::system_clock::now());
    {
      const std::lock_guard lock(mutex_);
      for (auto& [resource, plugin] : plugins_) plugin->context.TryCancel();
    }
    for (auto& [resource, plugin] : plugins_) plugin->reader.join();
    plugins_.clear();
    server_.reset();
  }
  /// Clears the folder of the sockets first, as a kubelet does when it starts.
  void start() {
    for (const auto& entry : std::filesystem::directory_iterator(dir_)) std::filesystem::remove(entry.path());
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + dir_ + "/kubelet.sock", grpc::InsecureServerCredentials());
    builder.AddListeningPort("unix:" + resources_socket(), grpc::InsecureServerCredentials());
    builder.RegisterService(static_cast<v1beta1::Registration::Service*>(this));
    builder.RegisterService(static_cast<v1::PodResourcesLister::Service*>(this));
    server_ = builder.BuildAndStart();
  }

  grpc::Status Register(grpc::ServerContext*, const v1beta1::RegisterRequest* request, v1beta1::Empty*) override {
    if (request->version() != "v1beta1") return {grpc::StatusCode::INVALID_ARGUMENT, "version"};
    const std::lock_guard lock(mutex_);
    ++registrations_;
    auto plugin = std::make_unique<Plugin>();
    plugin->preferring = request->options().get_preferred_allocation_available();
    grpc::ChannelArguments own;
    own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    plugin->stub = v1beta1::DevicePlugin::NewStub(
        grpc::CreateCustomChannel("unix:" + dir_ + "/" + request->endpoint(), grpc::InsecureChannelCredentials(), own));
    Plugin& at = *plugin;
    plugin->reader = std::thread([this, &at] {
      const auto stream = at.stub->ListAndWatch(&at.context, {});
      v1beta1::ListAndWatchResponse list;
      while (stream->Read(&list)) {
        const std::lock_guard hold(mutex_);
        at.devices.clear();
        for (const auto& device : list.devices()) at.devices[device.id()] = device;
      }
    });
    auto& slot = plugins_[request->resource_name()];
    if (slot) {
      slot->context.TryCancel();
      retired_.push_back(std::move(slot));
    }
    slot = std::move(plugin);
    return grpc::Status::OK;
  }

  grpc::Status List(grpc::ServerContext*, const v1::ListPodResourcesRequest*,
                    v1::ListPodResourcesResponse* out) override {
    const std::lock_guard lock(mutex_);
    ++lists_;
    if (away_) return {grpc::StatusCode::UNAVAILABLE, "kubelet is starting"};
    for (const auto& [pod, resources] : held_) {
      auto& entry = *out->add_pod_resources();
      entry.set_namespace_(pod.substr(0, pod.find('/')));
      entry.set_name(pod.substr(pod.find('/') + 1));
      auto& container = *entry.add_containers();
      container.set_name("main");
      for (const auto& [resource, ids] : resources) {
        auto& devices = *container.add_devices();
        devices.set_resource_name(resource);
        for (const auto& id : ids) devices.add_device_ids(id);
      }
    }
    return grpc::Status::OK;
  }

  grpc::Status GetAllocatableResources(grpc::ServerContext*, const v1::AllocatableResourcesRequest*,
                                       v1::AllocatableResourcesResponse* out) override {
    const std::lock_guard lock(mutex_);
    for (const auto& [resource, ids] : offered_) {
      auto& devices = *out->add_devices();
      devices.set_resource_name(resource);
      for (const auto& id : ids) devices.add_device_ids(id);
    }
    return grpc::Status::OK;
  }
  /// Adds a device of another plugin.
  void offer(const std::string& resource, const std::string& id) {
    const std::lock_guard lock(mutex_);
    offered_[resource].push_back(id);
  }

  /// Devices of one container, as the kubelet allocates them. `chosen`: the choice of the Topology Manager, if it has
  /// one.
  struct Given {
    grpc::Status status;
    std::vector<std::string> ids;
    std::string visible;                              ///< NVIDIA_VISIBLE_DEVICES of the container
    std::map<std::string, std::string> envs, mounts;  // all of them; folders in the container by those of the node
  };
  Given give(const std::string& pod, const std::string& resource, int count, std::vector<std::string> chosen = {}) {
    std::shared_ptr<v1beta1::DevicePlugin::Stub> stub;
    v1beta1::PreferredAllocationRequest wish;
    auto& of = *wish.add_container_requests();
    bool preferring = false;
    {
      const std::lock_guard lock(mutex_);
      const auto plugin = plugins_.find(resource);
      if (plugin == plugins_.end()) return {{grpc::StatusCode::NOT_FOUND, "no plugin"}, {}, {}, {}, {}};
      stub = plugin->second->stub;
      preferring = plugin->second->preferring;
      for (const auto& [id, device] : plugin->second->devices) {
        if (device.health() == "Healthy" && !taken(resource, id)) of.add_available_deviceids(id);
      }
      of.set_allocation_size(count);
      if (of.available_deviceids_size() < count)
        return {{grpc::StatusCode::RESOURCE_EXHAUSTED, "too few"}, {}, {}, {}, {}};
    }
    Given out;
    out.ids = std::move(chosen);
    if (out.ids.empty() && preferring) {
      grpc::ClientContext context;
      v1beta1::PreferredAllocationResponse preferred;
      out.status = stub->GetPreferredAllocation(&context, wish, &preferred);
      if (!out.status.ok()) return out;
      const auto& ids = preferred.container_responses(0).deviceids();
      out.ids.assign(ids.begin(), ids.end());
    }
    for (const auto& id : of.available_deviceids()) {  // devices beyond the preferred ones
      if (static_cast<int>(out.ids.size()) < count && std::ranges::find(out.ids, id) == out.ids.end())
        out.ids.push_back(id);
    }
    grpc::ClientContext context;
    v1beta1::AllocateRequest request;
    auto& container = *request.add_container_requests();
    for (const auto& id : out.ids) container.add_devices_ids(id);
    v1beta1::AllocateResponse answer;
    out.status = stub->Allocate(&context, request, &answer);
    if (!out.status.ok()) return out;
    out.visible = answer.container_responses(0).envs().at("NVIDIA_VISIBLE_DEVICES");
    for (const auto& [name, value] : answer.container_responses(0).envs()) out.envs[name] = value;
    for (const auto& mount : answer.container_responses(0).mounts())
      out.mounts[mount.host_path()] = mount.container_path();
    hold(pod, resource, out.ids);
    return out;
  }
  /// Sets what pod-resources reports of a pod from now on; another plugin may have allocated it.
  void hold(const std::string& pod, const std::string& resource, const std::vector<std::string>& ids) {
    const std::lock_guard lock(mutex_);
    auto& all = held_[pod][resource];
    all.insert(all.end(), ids.begin(), ids.end());
  }
  void release(const std::string& pod) {
    const std::lock_guard lock(mutex_);
    held_.erase(pod);
  }
  void away(bool yes) {
    const std::lock_guard lock(mutex_);
    away_ = yes;
  }

  /// Ids of a resource with this health; empty if no plugin has registered the resource.
  [[nodiscard]] std::set<std::string> ids(const std::string& resource, const std::string& health = "Healthy") const {
    const std::lock_guard lock(mutex_);
    std::set<std::string> out;
    const auto plugin = plugins_.find(resource);
    if (plugin == plugins_.end()) return out;
    for (const auto& [id, device] : plugin->second->devices) {
      if (device.health() == health) out.insert(id);
    }
    return out;
  }
  [[nodiscard]] std::optional<std::int64_t> numa_of(const std::string& resource, const std::string& id) const {
    const std::lock_guard lock(mutex_);
    const auto& device = plugins_.at(resource)->devices.at(id);
    if (device.topology().nodes().empty()) return std::nullopt;
    return device.topology().nodes(0).id();
  }
  [[nodiscard]] int registrations() const {
    const std::lock_guard lock(mutex_);
    return registrations_;
  }
  [[nodiscard]] int lists() const {
    const std::lock_guard lock(mutex_);
    return lists_;
  }

 private:
  struct Plugin {
    std::shared_ptr<v1beta1::DevicePlugin::Stub> stub;
    grpc::ClientContext context;
    bool preferring = false;
    std::map<std::string, v1beta1::Device> devices;
    std::thread reader;
    ~Plugin() {
      if (reader.joinable()) reader.join();
    }
  };
  [[nodiscard]] bool taken(const std::string& resource, const std::string& id) const {
    return std::ranges::any_of(held_, [&](const auto& pod) {
      const auto own = pod.second.find(resource);
      return own != pod.second.end() && std::ranges::find(own->second, id) != own->second.end();
    });
  }

  const std::string dir_;
  mutable std::mutex mutex_;
  int registrations_ = 0, lists_ = 0;
  bool away_ = false;
  std::map<std::string, std::unique_ptr<Plugin>> plugins_;
  std::vector<std::unique_ptr<Plugin>> retired_;
  std::map<std::string, std::vector<std::string>> offered_;
  std::map<std::string, std::map<std::string, std::vector<std::string>>> held_;  // pod -> resource -> ids
  std::unique_ptr<grpc::Server> server_;
};

/// Devices that the test sets.
class FakeDevices final : public DeviceSource {
 public:
  explicit FakeDevices(std::vector<Device> devices) : devices_(std::move(devices)) {}
  Result<std::vector<Device>> devices() override {
    const std::lock_guard lock(mutex_);
    ++looks_;
    return devices_;
  }
  void set(std::vector<Device> devices) {
    const std::lock_guard lock(mutex_);
    devices_ = std::move(devices);
  }
  [[nodiscard]] int looks() const {
    const std::lock_guard lock(mutex_);
    return looks_;
  }

 private:
  mutable std::mutex mutex_;
  int looks_ = 0;
  std::vector<Device> devices_;
};

/// `count` whole GPUs, the first half on NUMA node 0.
inline std::vector<Device> whole_gpus(int count) {
  std::vector<Device> out;
  for (int i = 0; i < count; ++i) out.push_back({i, fmt::format("GPU-{}", i), i < count / 2 ? 0 : 1, false, {}});
  return out;
}

}  // namespace qm::agent::testing
