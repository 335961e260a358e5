// Nodes: registration, heartbeats, faults of nodes and GPUs, and their end.
#include "cluster.hpp"
#include "dcgm_page.hpp"
#include "qm/base/digest.hpp"
#include "user_data.hpp"

#include <algorithm>

namespace qm::fleet {
namespace {

/// A GPU's uuid belongs to the instance, so it is derived from the instance and not from the order of events.
std::string gpu_uuid(const std::string& instance, int minor) {
  return "GPU-" + dashed(sha256_hex(fmt::format("{}/{}", instance, minor)));
}

constexpr const char* kBuses[] = {"1B", "43", "52", "61", "9D", "C3", "D1", "DF"};

Json labels_of(const Instance& instance, const InstanceType& type, const std::string& region) {
  Json labels = Json::object({{"kubernetes.io/hostname", instance.private_dns},
                              {"kubernetes.io/arch", "amd64"},
                              {"kubernetes.io/os", "linux"},
                              {"topology.kubernetes.io/region", region},
                              {std::string(words::kInstanceType), instance.type},
                              {std::string(words::kZone), instance.zone},
                              {std::string(words::kCapacityType), name_of(instance.market)}});
  int layer = 0;
  for (const auto& node : network_nodes(instance))
    labels.set(fmt::format("topology.k8s.aws/network-node-layer-{}", ++layer), node);
  if (type.gpus > 0) {
    labels.set(words::kGpuProduct, type.gpu_product);
    labels.set(words::kGpuCount, std::to_string(type.gpus));
    labels.set("nvidia.com/gpu.memory", std::to_string(type.gpu_memory_mib));
    labels.set("nvidia.com/gpu.present", "true");
    labels.set("nvidia.com/mig.capable", type.gpu_model == "H100" || type.gpu_model == "A100" ? "true" : "false");
  }
  for (std::string_view tag : {words::kNodePool, std::string_view("fleet.quartermaster.dev/name")}) {
    if (const auto* value = find_in(instance.tags, std::string(tag))) labels.set(tag, *value);
  }
  for (const auto& [key, value] : registration_of(instance.user_data).labels) labels.set(key, value);
  return labels;
}

Json taints_of(const Instance& instance) {
  Json taints = Json::array();
  for (const Taint& taint : registration_of(instance.user_data).taints)
    taints.push_back(Json::object({{"key", taint.key}, {"value", taint.value}, {"effect", taint.effect}}));
  return taints;
}

Json resources_of(const InstanceType& type) {
  Json resources = Json::object({{"cpu", std::to_string(type.vcpu)},
                                 {"memory", fmt::format("{}Mi", type.memory_mib)},
                                 {"ephemeral-storage", "500Gi"},
                                 {"pods", "250"}});
  if (type.gpus > 0) resources.set(words::kGpuResource, std::to_string(type.gpus));
  return resources;
}

std::int64_t healthy_gpus(const NodeState& node) {
  return std::ranges::count_if(node.devices, [](const Device& device) { return device.healthy; });
}

constexpr std::string_view kUnreachable = "node.kubernetes.io/unreachable";

}  // namespace

void Cluster::on_instance(const Instance& instance, InstanceEvent event) {
  if (event == InstanceEvent::kBooted) return boot(instance);
  if (event != InstanceEvent::kStopping || !nodes_.contains(instance.private_dns)) return;
  take_down(instance.private_dns);
  world_.after(options_.node_gone, [this, name = instance.private_dns] { remove_node(name); });
}

void Cluster::boot(const Instance& instance) {
  const InstanceType& type = *world_.prices().find(instance.type);
  NodeState state{.name = instance.private_dns, .instance = instance.id, .type = type};
  for (int minor = 0; minor < type.gpus; ++minor) {
    Device device;
    device.minor = minor;
    device.uuid = gpu_uuid(instance.id, minor);
    device.pci_bus_id =
        fmt::format("00000000:{}:00.0", minor < 8 ? kBuses[minor] : fmt::format("{:02X}", 0xE0 + minor));
    device.counted = world_.now();
    state.devices.push_back(std::move(device));
  }
  const auto address = [](std::string_view kind, const std::string& value) {
    return Json::object({{"type", kind}, {"address", value}});
  };
  Json node;
  node.set("metadata").set("name", state.name).set("labels", labels_of(instance, type, world_.options().region));
  node.set("spec").set("providerID", fmt::format("aws:///{}/{}", instance.zone, instance.id));
  if (Json taints = taints_of(instance); taints.size() > 0) node.set("spec").set("taints", std::move(taints));
  Json& status = node.set("status");
  status.set("nodeInfo").set("kubeletVersion", "v1.36.4").set("architecture", "amd64").set("operatingSystem", "linux");
  status.set("capacity", resources_of(type)).set("allocatable", resources_of(type));
  status.set("addresses", Json::array({address("InternalIP", instance.private_ip), address("InternalDNS", state.name),
                                       address("Hostname", state.name)}));
  const auto now = world_.now_floor();
  for (const char* pressure : {"MemoryPressure", "DiskPressure", "PIDPressure"}) {
    set_condition(node, pressure, "False", "KubeletHasSufficientResources", "", now);
  }
  set_condition(node, "Ready", "True", "KubeletReady", "kubelet is posting ready status", now);
  Json lease;
  lease.set("metadata").set("name", state.name);
  lease.set("spec").set("holderIdentity", state.name).set("leaseDurationSeconds", 40).set("renewTime", to_rfc3339(now));
  nodes_.insert_or_assign(state.name, state);
  (void)store_.create(nodes_kind_, "", std::move(node));
  (void)store_.create(kind_of("leases"), "kube-node-lease", std::move(lease));
}

void Cluster::take_down(const std::string& name) {
  NodeState& state = nodes_.at(name);
  if (!state.up) return;
  state.up = false;
  const std::set<std::string> pods = state.pods;
  for (const auto& uid : pods) {
    leave_gang(pods_.at(uid), false);
    end(uid, "NodeLost");
  }
}

void Cluster::show_loss(const std::string& name) {
  const NodeState* state = node(name);
  if (state == nullptr || state->up) return;
  const auto now = world_.now_floor();
  store_.modify(nodes_kind_, "", name, [&](Json& object) {
    set_condition(object, "Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.", now);
    Json& taints = object.set("spec").set("taints");
    for (const char* effect : {"NoSchedule", "NoExecute"}) {
      taints.push_back(Json::object({{"key", kUnreachable}, {"effect", effect}, {"timeAdded", to_rfc3339(now)}}));
    }
  });
  for (const auto& pod : pods_on(name)) fail_lost(pod);
}

std::vector<ObjectPtr> Cluster::pods_on(const std::string& name) const {
  std::vector<ObjectPtr> here;
  store_.each(pods_kind_, [&](const ObjectPtr& pod) {
    if ((*pod)["spec"]["nodeName"].string() == name) here.push_back(pod);
  });
  return here;
}

void Cluster::remove_node(const std::string& name) {
  for (const auto& pod : pods_on(name)) {
    if ((*pod)["status"]["phase"].string() == "Succeeded") continue;
    fail_lost(pod);
    (void)store_.remove(pods_kind_, namespace_of(*pod), name_of(*pod), {uid_of(*pod), {}, 0, {}});
  }
  nodes_.erase(name);
  world_.release("drain:" + name);
  (void)store_.remove(nodes_kind_, "", name, {});
  (void)store_.remove(kind_of("leases"), "kube-node-lease", name, {});
}

void Cluster::show_devices(const NodeState& state) {
  store_.modify(nodes_kind_, "", state.name, [&](Json& object) {
    for (const char* what : {"capacity", "allocatable"}) {
      Json& available = object.set("status").set(what);
      std::erase_if(available.members_mut(), [](const auto& m) { return m.first.starts_with(words::kMigPrefix); });
      const auto gpus = std::string_view(what) == "capacity" ? std::ssize(state.devices) : healthy_gpus(state);
      available.set(words::kGpuResource, std::to_string(state.instances > 0 ? 0 : gpus));
      if (state.instances == 0) continue;
      available.set(std::string(words::kMigPrefix) + state.profile, std::to_string(gpus * state.instances));
    }
  });
}

Status Cluster::xid(const std::string& name, int code, std::optional<int> gpu) {
  NodeState* state = node(name);
  if (state == nullptr || !state->up) return fail(Code::kNotFound, "there is no live node {}", name);
  if (state->devices.empty()) return fail(Code::kInvalid, "{} has no GPU", name);
  if (gpu && (*gpu < 0 || *gpu >= static_cast<int>(state->devices.size()))) {
    return fail({Code::kInvalid, fmt::format("{} has no GPU {}", name, *gpu), "gpu",
                 fmt::format("use 0 to {}", state->devices.size() - 1)});
  }
  // Without a named GPU a device in use is chosen, because that is the relevant case.
  auto it = std::ranges::find_if(state->devices, [](const Device& d) { return !d.pod.empty() && d.healthy; });
  Device& device = gpu ? state->devices[static_cast<std::size_t>(*gpu)]
                       : (it == state->devices.end() ? state->devices.front() : *it);
  device.xid = code;
  const Xid& known = xid_of(code);
  if (!known.harmless) device.healthy = false;
  world_.signal("xid",
                {{"node", name}, {"xid", code}, {"device", device.minor}, {"uuid", device.uuid}, {"pod", device.pod}});
  show_devices(*state);
  PodState* const holder = find_in(pods_, device.pod);
  if (holder != nullptr && known.ends_program) {
    // The program hangs at once and fails at its next call to the driver.
    holder->hung = true;
    leave_gang(*holder, false);
    world_.after(std::chrono::seconds(world_.random_between(10, 20)),
                 [this, uid = device.pod] { finish(uid, 1, "Error"); });
  }
  return {};
}

Status Cluster::lose_node(const std::string& name) {
  const NodeState* state = node(name);
  if (state == nullptr || !state->up) return fail(Code::kNotFound, "there is no live node {}", name);
  world_.signal("node_lost", {{"node", name}, {"id", state->instance}});
  take_down(name);
  world_.after(options_.loss_detected, [this, name] { show_loss(name); });
  return {};
}

Status Cluster::heal_node(const std::string& name) {
  NodeState* state = node(name);
  if (state == nullptr) return fail(Code::kNotFound, "there is no node {}", name);
  const auto instance = world_.instance(state->instance);
  if (!instance || !instance->alive()) return fail(Code::kFailedPrecondition, "the instance of {} has stopped", name);
  take_down(name);  // a reboot ends all running pods
  for (const auto& pod : pods_on(name)) fail_lost(pod);
  state->up = true;
  for (Device& device : state->devices) {
    device.xid = 0;
    device.healthy = true;
  }
  show_devices(*state);
  store_.modify(nodes_kind_, "", name, [&](Json& object) {
    set_condition(object, "Ready", "True", "KubeletReady", "kubelet is posting ready status", world_.now_floor());
    Json& spec = object.set("spec");
    std::erase_if(spec.set("taints").items_mut(), [](const Json& t) { return t["key"].string() == kUnreachable; });
    if (spec["taints"].size() == 0) spec.erase("taints");
  });
  return {};
}

void Cluster::heartbeat() {
  const auto held = world_.lock();
  const std::string now = to_rfc3339(world_.now_floor());
  for (const auto& [name, state] : nodes_) {
    if (!state.up) continue;
    store_.modify(kind_of("leases"), "kube-node-lease", name,
                  [&](Json& lease) { lease.set("spec").set("renewTime", now); });
  }
}

Json Cluster::summary() const {
  std::int64_t devices = 0, allocated = 0, computing = 0, unhealthy = 0;
  for (const auto& [name, state] : nodes_) {
    if (!state.up) continue;
    for (const Device& device : state.devices) {
      ++devices;
      unhealthy += device.healthy ? 0 : 1;
      if (device.pod.empty()) continue;
      ++allocated;
      const auto& holder = pods_.at(device.pod);
      computing += holder.phase == PodState::Phase::kRunning && gangs_.whole(holder.gang) ? 1 : 0;
    }
  }
  return Json::object(
      {{"nodes", static_cast<std::int64_t>(nodes_.size())},
       {"gpus", devices},
       {"gpus_allocated", allocated},
       {"gpus_computing", computing},
       {"gpus_unhealthy", unhealthy},
       {"utilization", devices == 0 ? 0.0 : static_cast<double>(computing) / static_cast<double>(devices)}});
}

}  // namespace qm::fleet
