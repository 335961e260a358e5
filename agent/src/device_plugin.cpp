#include "device_plugin.hpp"

#include "kubelet/deviceplugin.grpc.pb.h"
#include "qm/base/log.hpp"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <filesystem>
#include <sys/stat.h>

namespace qm::agent {
namespace {

constexpr const char* kPluginApiVersion = "v1beta1";
constexpr auto kLookForEnd = std::chrono::milliseconds(200);  // between checks whether the kubelet closed the stream
constexpr auto kCall = std::chrono::seconds(5);

/// Identifies a socket, to distinguish it from one that a later process created at the same path; empty if there is
/// none.
std::string mark_of(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return {};
  return fmt::format("{}/{}/{}.{}", found.st_dev, found.st_ino, found.st_ctim.tv_sec, found.st_ctim.tv_nsec);
}

std::set<std::string> devices_named(const google::protobuf::RepeatedPtrField<std::string>& ids) {
  std::set<std::string> out;
  for (const auto& id : ids) out.insert(std::string(device_of(id)));
  return out;
}

}  // namespace

/// The device plugin of one resource, as the kubelet calls it.
class DevicePlugin::Service final : public v1beta1::DevicePlugin::Service {
 public:
  Service(agent::DevicePlugin& plugin, std::string resource, std::string socket)
      : plugin_(plugin), resource_(std::move(resource)), socket_(std::move(socket)) {
    std::error_code none;
    std::filesystem::remove(socket_, none);  // an earlier process left it
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket_, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    mark_ = mark_of(socket_);
  }
  ~Service() override {
    {
      const std::lock_guard lock(plugin_.mutex_);
      closing_ = true;
    }
    plugin_.wake_.notify_all();
    if (server_) server_->Shutdown(std::chrono::system_clock::now());
  }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  bool registered = false;  // used only by the plugin's thread
  [[nodiscard]] bool serves() const { return server_ != nullptr && !mark_.empty() && mark_of(socket_) == mark_; }
  [[nodiscard]] std::string endpoint() const { return std::filesystem::path(socket_).filename().string(); }

  grpc::Status GetDevicePluginOptions(grpc::ServerContext*, const v1beta1::Empty*,
                                      v1beta1::DevicePluginOptions* out) override {
    out->set_get_preferred_allocation_available(true);
    return grpc::Status::OK;
  }

  grpc::Status ListAndWatch(grpc::ServerContext* context, const v1beta1::Empty*,
                            grpc::ServerWriter<v1beta1::ListAndWatchResponse>* stream) override {
    for (std::uint64_t seen_version = 0;;) {
      v1beta1::ListAndWatchResponse all;
      {
        std::unique_lock lock(plugin_.mutex_);
        while (!closing_ && plugin_.version_ == seen_version && !context->IsCancelled()) {
          plugin_.wake_.wait_for(lock, kLookForEnd);
        }
        if (closing_ || context->IsCancelled()) return grpc::Status::OK;
        seen_version = plugin_.version_;
        for (const auto& [id, seen] : plugin_.units_[resource_]) {
          auto& device = *all.add_devices();
          device.set_id(id);
          device.set_health(healthy(seen) ? "Healthy" : "Unhealthy");
          if (seen.unit.numa >= 0) device.mutable_topology()->add_nodes()->set_id(seen.unit.numa);
        }
      }
      if (!stream->Write(all)) return grpc::Status::OK;
    }
  }

  grpc::Status GetPreferredAllocation(grpc::ServerContext*, const v1beta1::PreferredAllocationRequest* request,
                                      v1beta1::PreferredAllocationResponse* out) override {
    for (const auto& container : request->container_requests()) {
      const auto size = container.allocation_size();
      const auto claims =
          wait_for([&](const auto& all) { return std::ranges::any_of(all, [&](auto& c) { return c.awaits(size); }); });
      const auto ids =
          prefer(claims, plugin_.gpus(resource_),
                 {container.available_deviceids().begin(), container.available_deviceids().end()},
                 {container.must_include_deviceids().begin(), container.must_include_deviceids().end()}, size);
      auto& answer = *out->add_container_responses();
      for (const auto& id : ids) answer.add_deviceids(id);
    }
    return grpc::Status::OK;
  }

  grpc::Status Allocate(grpc::ServerContext*, const v1beta1::AllocateRequest* request,
                        v1beta1::AllocateResponse* out) override {
    for (const auto& container : request->container_requests()) {
      const std::vector<std::string> ids(container.devices_ids().begin(), container.devices_ids().end());
      if (auto checked = check(ids); !checked.ok()) return refused(std::move(checked));
      const auto gpus = plugin_.gpus(resource_);
      const auto claims = wait_for([&](const auto& all) { return judge(all, gpus, ids).claim != nullptr; });
      const auto found = judge(claims, gpus, ids);
      if (auto kept = keep(found, ids); !kept.ok()) return refused(std::move(kept));
      auto& answer = *out->add_container_responses();
      (*answer.mutable_envs())["NVIDIA_VISIBLE_DEVICES"] =
          fmt::format("{}", fmt::join(devices_named(container.devices_ids()), ","));
      if (plugin_.options_.sharing.mps) hold_to_its_part(ids, answer);
    }
    return grpc::Status::OK;
  }

  grpc::Status PreStartContainer(grpc::ServerContext*, const v1beta1::PreStartContainerRequest*,
                                 v1beta1::PreStartContainerResponse*) override {
    return grpc::Status::OK;
  }

 private:
  [[nodiscard]] bool healthy(const Seen& seen) const { return seen.there && !plugin_.faulty_.contains(seen.unit.gpu); }

  /// Under MPS: mounts the daemon's pipe, and limits threads and memory to the container's number of shares of each
  /// GPU.
  void hold_to_its_part(const std::vector<std::string>& ids, v1beta1::ContainerAllocateResponse& answer) const {
    std::string resource = resource_;
    if (plugin_.options_.sharing.renamed) resource.resize(resource.rfind(".shared"));
    const int shares = plugin_.options_.sharing.of(resource);
    if (shares == 1) return;
    const auto parts = static_cast<int>(ids.size());
    std::int64_t memory_mib = 0;  // the smallest memory of its GPUs
    {
      const std::lock_guard lock(plugin_.mutex_);
      for (const auto& id : ids) {
        const auto mib = plugin_.units_[resource_].at(id).unit.memory_mib;
        if (memory_mib == 0 || mib < memory_mib) memory_mib = mib;
      }
    }
    auto& envs = *answer.mutable_envs();
    envs["CUDA_MPS_PIPE_DIRECTORY"] = fmt::format("/mps/{}/pipe", resource);
    envs["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = std::to_string(std::max(1, 100 * std::min(parts, shares) / shares));
    std::set<std::string_view> gpus;
    for (const auto& id : ids) gpus.insert(device_of(id));
    std::string limits;
    for (std::size_t gpu = 0; memory_mib > 0 && gpu < gpus.size(); ++gpu) {
      limits += fmt::format("{}{}={}M", gpu == 0 ? "" : ",", gpu, memory_mib / shares);
    }
    if (!limits.empty()) envs["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = limits;
    const std::string& root = plugin_.options_.mps;
    for (const auto& [inside, outside] :
         {std::pair(fmt::format("/mps/{}/pipe", resource), fmt::format("{}/{}/pipe", root, resource)),
          std::pair(std::string("/dev/shm"), root + "/shm")}) {
      auto& mount = *answer.add_mounts();
      mount.set_container_path(inside);
      mount.set_host_path(outside);
    }
  }

  /// Returns the claims once `satisfies` holds, or the current ones after `patience`: the kubelet may see a pod first.
  template <class Fn>
  std::vector<Claim> wait_for(const Fn& satisfies) const {
    const auto until = std::chrono::steady_clock::now() + plugin_.options_.patience;
    for (;;) {
      const auto changes = plugin_.pods_.changes();
      auto claims = plugin_.claims(resource_);
      if (satisfies(claims) || !plugin_.pods_.wait_past(changes, until)) return claims;
    }
  }

  [[nodiscard]] grpc::Status check(const std::vector<std::string>& ids) const {
    const std::lock_guard lock(plugin_.mutex_);
    const auto& units = plugin_.units_[resource_];
    for (const auto& id : ids) {
      const auto unit = units.find(id);
      if (unit == units.end()) {
        return {grpc::StatusCode::NOT_FOUND, fmt::format("{} has no device {}", resource_, id)};
      }
      if (!healthy(unit->second)) {
        return {grpc::StatusCode::FAILED_PRECONDITION,
                fmt::format("GPU {} ({}) does not work", unit->second.unit.gpu, id)};
      }
    }
    return grpc::Status::OK;
  }

  [[nodiscard]] grpc::Status keep(const Judgement& found, const std::vector<std::string>& ids) {
    using Kind = Judgement::Kind;
    const std::string pod = found.claim == nullptr ? "" : found.claim->pod;
    if (found.kind == Kind::kDiffers) {
      const auto message = fmt::format("the kubelet allocated {1} to pod {0}, whose assignment has GPUs {2}", pod,
                                       fmt::join(ids, ","), fmt::join(found.claim->gpus, ","));
      log::warn("devices differ from the assignment",
                {{"pod", pod},
                 {"resource", resource_},
                 {"given", fmt::format("{}", fmt::join(ids, ","))},
                 {"assigned", fmt::format("{}", fmt::join(found.claim->gpus, ","))},
                 {"refused", plugin_.options_.strict}});
      if (plugin_.options_.strict) return {grpc::StatusCode::FAILED_PRECONDITION, message};
    }
    const std::lock_guard lock(plugin_.mutex_);
    if (found.claim != nullptr) plugin_.served_[resource_][found.claim->uid].insert(ids.begin(), ids.end());
    auto& counters = plugin_.counters_;
    (found.kind == Kind::kHonored ? counters.honored
     : found.kind == Kind::kFree  ? counters.free
                                  : counters.differs)
        .add();
    return grpc::Status::OK;
  }

  grpc::Status refused(grpc::Status why) {
    plugin_.counters_.refused.add();
    return why;
  }

  agent::DevicePlugin& plugin_;
  const std::string resource_, socket_;
  std::string mark_;
  bool closing_ = false;  // guarded by the plugin's mutex
  std::unique_ptr<grpc::Server> server_;
};

DevicePlugin::DevicePlugin(Options options, DeviceSource& devices, const Pods& pods, metrics::Registry& registry)
    : options_(std::move(options)), devices_(devices), pods_(pods) {
  const auto allocations = [&](const char* result) {
    return registry.counter("qm_agent_plugin_allocations_total",
                            "Allocate calls of the kubelet, one for each container.", {{"result", result}});
  };
  counters_ = {allocations("honored"),
               allocations("free"),
               allocations("differs"),
               allocations("refused"),
               registry.counter("qm_agent_plugin_registrations_total", "Resources registered at the kubelet."),
               [&registry](const std::string& reason) {
                 return registry.counter("qm_agent_plugin_assignments_unused_total",
                                         "Pods with a devices annotation that placement did not write.",
                                         {{"reason", reason}});
               }};
  for (const char* why : {"OtherScheduler", "Malformed", "Conflict"}) counters_.unusable(why);
}

DevicePlugin::~DevicePlugin() { stop(); }

void DevicePlugin::start() {
  thread_ = std::thread([this] { run(); });
}

void DevicePlugin::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  services_.clear();
}

void DevicePlugin::faulty(std::set<std::int32_t> gpus) {
  const std::lock_guard lock(mutex_);
  if (gpus == faulty_) return;
  faulty_ = std::move(gpus);
  ++version_;
  wake_.notify_all();
}

void DevicePlugin::given(const std::map<std::string, std::set<std::string>>& by_pod) {
  const std::lock_guard lock(mutex_);
  for (const auto& [resource, units] : units_) {
    for (const Claim& claim : pods_.claims(options_.node, resource)) {
      const auto has = by_pod.find(claim.pod);
      if (has == by_pod.end()) continue;
      for (const auto& id : has->second) {
        if (units.contains(id)) served_[resource][claim.uid].insert(id);
      }
    }
  }
}

void DevicePlugin::run() {
  for (;;) {
    look_at_devices();
    look_at_kubelet();
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, options_.look, [this] { return stopping_; })) return;
  }
}

// A GPU that is gone stays in the list as unhealthy, because its pods still hold it. A GPU that was partitioned or
// repartitioned is present and has other units.
void DevicePlugin::look_at_devices() {
  const auto now = std::chrono::steady_clock::now();
  if (looked_ != SteadyInstant{} && now - looked_ < options_.inventory) return;
  const auto devices = devices_.devices();
  if (!devices) {
    log::warn("devices cannot be listed", {{"error", devices.error().to_string()}});
    return;
  }
  looked_ = now;
  std::set<std::int32_t> there;
  for (const auto& device : *devices) there.insert(device.index);
  std::map<std::string, std::map<std::string, Seen>> next;
  for (auto& [resource, units] : units_of(*devices, options_.sharing)) {
    for (auto& unit : units) next[resource][unit.id] = {unit, true};
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [resource, units] : units_) {
    auto& kept = next[resource];  // a resource remains, even without devices
    for (const auto& [id, seen] : units) {
      if (!there.contains(seen.unit.gpu)) kept.try_emplace(id, Seen{seen.unit, false});
    }
  }
  if (next == units_) return;
  units_ = std::move(next);
  ++version_;
  wake_.notify_all();
}

void DevicePlugin::look_at_kubelet() {
  const std::string kubelet = mark_of(options_.dir + "/kubelet.sock");
  if (kubelet != kubelet_) {
    services_.clear();
    kubelet_ = kubelet;
  }
  if (kubelet_.empty()) return;
  std::vector<std::string> resources;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [resource, units] : units_) resources.push_back(resource);
  }
  for (const auto& resource : resources) {
    auto& service = services_[resource];
    if (!service || !service->serves()) {
      service.reset();
      service = std::make_unique<Service>(*this, resource, socket_of(resource));
      if (!service->serves()) {
        log::warn("device plugin cannot listen", {{"socket", socket_of(resource)}});
        continue;
      }
    }
    if (service->registered) continue;
    service->registered = register_with_kubelet(resource, service->endpoint());
    if (service->registered) counters_.registrations.add();
  }
}

bool DevicePlugin::register_with_kubelet(const std::string& resource, const std::string& endpoint) const {
  // A channel shared with an earlier connection would wait for a kubelet that is gone.
  grpc::ChannelArguments own;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto channel =
      grpc::CreateCustomChannel("unix:" + options_.dir + "/kubelet.sock", grpc::InsecureChannelCredentials(), own);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCall);
  v1beta1::RegisterRequest request;
  request.set_version(kPluginApiVersion);
  request.set_endpoint(endpoint);
  request.set_resource_name(resource);
  request.mutable_options()->set_get_preferred_allocation_available(true);
  v1beta1::Empty none;
  const auto publish_all = v1beta1::Registration::NewStub(channel)->Register(&context, request, &none);
  if (publish_all.ok()) {
    log::info("device plugin registered with the kubelet", {{"resource", resource}, {"endpoint", endpoint}});
  } else {
    log::warn("the kubelet refused the registration of the device plugin",
              {{"resource", resource}, {"error", publish_all.error_message()}});
  }
  return publish_all.ok();
}

std::string DevicePlugin::socket_of(const std::string& resource) const {
  std::string name = resource;
  std::ranges::replace(name, '/', '-');
  return fmt::format("{}/quartermaster-{}.sock", options_.dir, name);
}

std::vector<Claim> DevicePlugin::claims(const std::string& resource) {
  const std::lock_guard lock(mutex_);
  auto all = pods_.claims(options_.node, resource);
  auto& served = served_[resource];
  std::erase_if(served, [&](const auto& entry) {
    return std::ranges::none_of(all, [&](const Claim& claim) { return claim.uid == entry.first; });
  });
  for (Claim& claim : all) {
    if (const auto own = served.find(claim.uid); own != served.end()) claim.given = own->second;
  }
  note_unusable(all, drop_unusable(all, gpus_of(resource), options_.schedulers));
  return all;
}

/// Counts each pod once; the entry is removed with the pod.
void DevicePlugin::note_unusable(const std::vector<Claim>& claims, const std::map<std::string, std::string>& unusable) {
  std::erase_if(unusable_, [&](const auto& known) {
    return std::ranges::none_of(claims, [&](const Claim& claim) { return claim.uid == known.first; });
  });
  for (const Claim& claim : claims) {
    const auto why = unusable.find(claim.uid);
    if (why == unusable.end() || !unusable_.emplace(*why).second) continue;
    counters_.unusable(why->second).add();
    log::warn(
        "assignment of devices is not used",
        {{"pod", claim.pod},
         {"reason", why->second},
         {"remedy", "leave the annotation quartermaster.dev/devices to placement, which writes it with the bind"}});
  }
}

GpuOf DevicePlugin::gpus(const std::string& resource) const {
  const std::lock_guard lock(mutex_);
  return gpus_of(resource);
}

GpuOf DevicePlugin::gpus_of(const std::string& resource) const {
  GpuOf out;
  const auto units = units_.find(resource);
  if (units == units_.end()) return out;
  for (const auto& [id, seen] : units->second) out[id] = seen.unit.assigned_as;
  return out;
}

Json DevicePlugin::state() const {
  const std::lock_guard lock(mutex_);
  Json resources = Json::object({});
  for (const auto& [resource, units] : units_) {
    Json healthy = Json::array();
    for (const auto& [id, seen] : units) {
      if (seen.there && !faulty_.contains(seen.unit.gpu)) healthy.push_back(id);
    }
    resources.set(resource, std::move(healthy));
  }
  return resources;
}

}  // namespace qm::agent
