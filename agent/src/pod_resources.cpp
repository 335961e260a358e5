#include "pod_resources.hpp"

#include "kubelet/podresources.grpc.pb.h"
#include "qm/model/resources.hpp"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <tuple>

namespace qm::agent {
namespace {

constexpr auto kCall = std::chrono::milliseconds(1000);
constexpr int kMostBytes = 16 << 20;  // the limit of the kubelet's own client

bool is_ours(std::string_view resource) { return resource.starts_with("nvidia.com/"); }

class KubeletResources final : public HoldingSource {
 public:
  explicit KubeletResources(const std::string& socket) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMostBytes);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);  // a kubelet restarts within seconds
    stub_ = v1::PodResourcesLister::NewStub(
        grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments));
  }

  Result<HeldDevices> held() override {
    v1::ListPodResourcesResponse list;
    v1::AllocatableResourcesResponse all;
    {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + kCall);
      if (const auto rc = stub_->List(&context, {}, &list); !rc.ok()) return away(rc);
    }
    {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + kCall);
      if (const auto rc = stub_->GetAllocatableResources(&context, {}, &all); !rc.ok()) return away(rc);
    }
    HeldDevices out;
    for (const auto& devices : all.devices()) {
      if (!is_ours(devices.resource_name())) continue;
      for (const auto& id : devices.device_ids()) {
        if (const auto device = device_of(id); device.size() < id.size()) ++out.shares[std::string(device)];
      }
    }
    for (const auto& pod : list.pod_resources()) {
      for (const auto& container : pod.containers()) {
        for (const auto& devices : container.devices()) {
          if (!is_ours(devices.resource_name())) continue;
          out.held.push_back({pod.namespace_(),
                              pod.name(),
                              container.name(),
                              devices.resource_name(),
                              {devices.device_ids().begin(), devices.device_ids().end()}});
        }
      }
    }
    return out;
  }

 private:
  static tl::unexpected<Error> away(const grpc::Status& rc) {
    return fail(Code::kUnavailable, "the kubelet does not list its device allocations: {}", rc.error_message());
  }
  std::unique_ptr<v1::PodResourcesLister::Stub> stub_;
};

struct Place {
  std::int32_t gpu = 0;
  std::int32_t number = -1;  // of an instance, among all instances of the node
  std::string profile;
};

/// The holder of each device; a device has one holder.
std::map<std::string, const Held*> holder_of_each(const HeldDevices& held, const KnownPods& pods) {
  const auto rank = [&](const Held& one) {
    const std::string name = one.ns + "/" + one.pod;
    const auto created = pods.created.find(name);
    const bool known = created != pods.created.end();
    return std::tuple(known, known ? created->second : std::string(), name);
  };
  std::map<std::string, const Held*> out;
  for (const Held& one : held.held) {
    if (pods.ended.contains(one.ns + "/" + one.pod)) continue;
    for (const std::string& id : one.ids) {
      const auto [at, first] = out.try_emplace(id, &one);
      if (!first && rank(*at->second) < rank(one)) at->second = &one;
    }
  }
  return out;
}

/// "MIG-GPU-5f.../7/0" -> "GPU-5f..."; empty for other ids.
std::string_view parent_of(std::string_view id) {
  if (!id.starts_with("MIG-GPU-")) return {};
  return id.substr(4, id.find('/') - 4);
}

}  // namespace

std::unique_ptr<HoldingSource> pod_resources(const std::string& socket) {
  return std::make_unique<KubeletResources>(socket);
}

std::map<std::int32_t, std::vector<DeviceReading::Holder>> holders_of(const HeldDevices& held,
                                                                      const std::vector<Device>& devices,
                                                                      const KnownPods& pods) {
  std::map<std::string, Place, std::less<>> places;
  std::int32_t instances = 0;
  for (const Device& device : devices) {
    places[device.uuid] = {device.index, -1, {}};
    for (const Slice& slice : device.slices) places[slice.uuid] = {device.index, instances++, slice.profile};
  }
  const auto holds = holder_of_each(held, pods);
  std::map<std::int32_t, std::vector<DeviceReading::Holder>> out;
  for (const Held& one : held.held) {
    for (const std::string& id : one.ids) {
      if (const auto holder = holds.find(id); holder == holds.end() || holder->second != &one) continue;
      const std::string device(device_of(id));
      auto place = places.find(device);
      const bool old_name = place == places.end();
      if (old_name) place = places.find(parent_of(device));
      if (place == places.end()) continue;
      DeviceReading::Holder holder{one.ns, one.pod, one.container, place->second.profile};
      if (old_name && one.resource.starts_with(words::kMigPrefix)) {
        holder.mig_profile = one.resource.substr(words::kMigPrefix.size());
      }
      if (!holder.mig_profile.empty()) holder.uuid = device;
      if (!holder.mig_profile.empty() && one.resource == words::kGpuResource) holder.number = place->second.number;
      const auto shares = held.shares.find(device);
      holder.shares = shares == held.shares.end() ? 1 : std::max(shares->second, 1);
      out[place->second.gpu].push_back(std::move(holder));
    }
  }
  for (auto& [gpu, holders] : out) std::ranges::sort(holders);
  return out;
}

void leave_out_ended(DcgmPage& page, const KnownPods& pods) {
  for (DeviceReading& device : page.devices) {
    std::erase_if(device.holders,
                  [&](const auto& holder) { return pods.ended.contains(holder.ns + "/" + holder.pod); });
  }
}

std::map<std::string, std::set<std::string>> ids_by_pod(const HeldDevices& held) {
  std::map<std::string, std::set<std::string>> out;
  for (const Held& one : held.held) out[one.ns + "/" + one.pod].insert(one.ids.begin(), one.ids.end());
  return out;
}

}  // namespace qm::agent
