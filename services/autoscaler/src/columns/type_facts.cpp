#include "qm/autoscaler/columns/type_facts.hpp"

#include "qm/autoscaler/requirements/keys.hpp"
#include "qm/base/assert.hpp"
#include "qm/catalog/hardware.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

namespace qm::autoscaler {
namespace {

constexpr std::int64_t kMebi = 1 << 20;
constexpr std::int32_t kKubeletPods = 110;  ///< its default

const std::string kAws = "karpenter.k8s.aws/instance-";

/// A cloud sets the labels of these on its nodes: a launch cannot choose them.
constexpr std::string_view kForeignDomains[] = {"k8s.aws", "eks.amazonaws.com", "cloud.google.com",
                                                "karpenter.azure.com", "kubernetes.azure.com"};

/// The parts of "p6-b200.48xlarge": category p, generation 6, family p6-b200, size 48xlarge.
struct NameParts {
  explicit NameParts(std::string_view name) {
    const auto dot = name.find('.');
    family = name.substr(0, dot);
    size = name.substr(dot + 1);
    const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
    const auto first = std::find_if(family.begin(), family.end(), is_digit);
    category = std::string(family.begin(), first);
    generation = std::string(first, std::find_if_not(first, family.end(), is_digit));
  }
  std::string_view family, size;
  std::string category, generation;
};

/// The hypervisor of the type; empty on metal. The first sizes of p3 are the only ones of the catalog on Xen.
std::string hypervisor_of(const NameParts& parts) {
  if (parts.size.starts_with("metal")) return {};
  return parts.family == "p3" ? "xen" : "nitro";
}

class LabelWriter {
 public:
  void set(const std::string& key, std::string_view value) {
    labels.add(value.empty() ? absent(key) : exactly(key, std::string(value)));
  }
  void set_number(const std::string& key, std::int64_t value) { set(key, value == 0 ? "" : std::to_string(value)); }
  Requirements labels;
};

void add_devices(LabelWriter& out, const catalog::Devices& gpu, const catalog::Devices& accelerator) {
  out.set(kAws + "gpu-name", gpu.name);
  out.set(kAws + "gpu-manufacturer", gpu.manufacturer);
  out.set_number(kAws + "gpu-count", gpu.count);
  out.set_number(kAws + "gpu-memory", gpu.memory_mib);
  out.set(kAws + "accelerator-name", accelerator.name);
  out.set(kAws + "accelerator-manufacturer", accelerator.manufacturer);
  out.set_number(kAws + "accelerator-count", accelerator.count);
}

/// The extended resource by which pods request the devices; empty = no device plugin that Karpenter knows.
std::string resource_of(const catalog::Devices& devices) {
  if (devices.manufacturer == "nvidia") return std::string(words::kGpuResource);
  if (devices.manufacturer == "amd") return "amd.com/gpu";
  if (devices.manufacturer == "habana") return "habana.ai/gaudi";
  if (devices.manufacturer == "aws") return "aws.amazon.com/neuron";
  return {};
}

/// Neuron cores of one device.
std::int64_t cores_of(std::string_view accelerator) {
  if (accelerator == "inferentia") return 4;
  if (accelerator == "inferentia2" || accelerator == "trainium") return 2;
  return accelerator == "trainium2" ? 8 : 0;
}

void add_device_amounts(const catalog::Devices& devices, Amounts& out) {
  const auto resource = resource_of(devices);
  if (devices.count == 0 || resource.empty()) return;
  out[resource] = devices.count;
  if (const auto cores = cores_of(devices.name); cores > 0) out["aws.amazon.com/neuroncore"] = devices.count * cores;
}

std::int64_t reserved_cpu_milli(std::int64_t cores) {
  // In tens of micro-cores, so that no share is rounded before the sum.
  std::int64_t sum = 0;
  for (std::int64_t core = 0; core < cores; ++core) sum += core == 0 ? 6000 : core == 1 ? 1000 : core < 4 ? 500 : 250;
  return sum / 100;
}

}  // namespace

Requirements node_labels(const catalog::Type& type) {
  const catalog::Hardware* hardware = catalog::hardware_of(type.name);
  QM_ASSERT(hardware != nullptr, "the catalog has no hardware of {}", type.name);
  const NameParts parts(type.name);
  LabelWriter out;
  out.set(std::string(words::kInstanceType), type.name);
  out.set("kubernetes.io/os", "linux");
  out.set("kubernetes.io/arch", hardware->arch);
  out.set(kAws + "family", parts.family);
  out.set(kAws + "size", parts.size);
  out.set(kAws + "category", parts.category);
  out.set(kAws + "generation", parts.generation);
  out.set_number(kAws + "cpu", type.vcpu);
  out.set(kAws + "cpu-manufacturer", hardware->cpu_manufacturer);
  out.set_number(kAws + "memory", type.memory_mib);
  out.set_number(kAws + "network-bandwidth", hardware->network_mbps);
  out.set_number(kAws + "local-nvme", hardware->local_nvme_gb);
  out.set(kAws + "hypervisor", hypervisor_of(parts));
  out.set(kAws + "capability-flex", parts.family.ends_with("-flex") ? "true" : "false");
  out.set(kAws + "tenancy", "default");
  add_devices(out, hardware->gpu, hardware->accelerator);
  out.set(std::string(words::kGpuProduct), type.gpu_product);
  out.set_number(std::string(words::kGpuCount), type.gpus);
  return std::move(out.labels);
}

bool is_supported(const std::string& key) {
  if (key == words::kZone || key == words::kCapacityType || key == "topology.kubernetes.io/region") return true;
  if (node_labels(catalog::types().front()).find(key) != nullptr) return true;
  const std::string_view domain =
      std::string_view(key).substr(0, key.find('/') == std::string::npos ? 0 : key.find('/'));
  const bool foreign = std::ranges::any_of(kForeignDomains, [&](std::string_view other) {
    return domain == other || (domain.ends_with(other) && domain[domain.size() - other.size() - 1] == '.');
  });
  return !foreign && !is_well_known(key) && !is_restricted(key);
}

NodeAmounts node_amounts(const catalog::Type& type) {
  const catalog::Hardware* hardware = catalog::hardware_of(type.name);
  QM_ASSERT(hardware != nullptr, "the catalog has no hardware of {}", type.name);
  const std::int64_t pods = hardware->pods > 0 ? hardware->pods : kKubeletPods;
  const std::int64_t advertised = type.memory_mib * kMebi - (hardware->arch == "arm64" ? 64 * kMebi : 0);
  NodeAmounts out;
  out.capacity["cpu"] = type.vcpu * 1000LL;
  // The overhead of 75 thousandths, rounded up to whole mebibytes.
  out.capacity["memory"] = advertised - (advertised / kMebi * 75 + 999) / 1000 * kMebi;
  out.capacity["pods"] = pods;
  add_device_amounts(hardware->gpu, out.capacity);
  add_device_amounts(hardware->accelerator, out.capacity);
  if (hardware->efa > 0) out.capacity["vpc.amazonaws.com/efa"] = hardware->efa;
  out.allocatable = out.capacity;
  out.allocatable["cpu"] -= reserved_cpu_milli(type.vcpu);
  out.allocatable["memory"] -= (255 + 11 * pods + 100) * kMebi;
  return out;
}

}  // namespace qm::autoscaler
