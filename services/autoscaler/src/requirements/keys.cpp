#include "qm/autoscaler/requirements/keys.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <utility>

namespace qm::autoscaler {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kAliases{{
    {"failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"},
    {"failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"},
    {"beta.kubernetes.io/arch", "kubernetes.io/arch"},
    {"beta.kubernetes.io/os", "kubernetes.io/os"},
    {"beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"},
}};

constexpr std::string_view kWellKnown[] = {
    "karpenter.sh/nodepool",
    "karpenter.sh/capacity-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "kubernetes.io/arch",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/windows-build",
    "kubernetes.io/os",
    "topology.k8s.aws/zone-id",
};

constexpr std::string_view kAwsPrefix = "karpenter.k8s.aws/";
// After the prefix of the provider.
constexpr std::string_view kAwsKeys[] = {
    "instance-category",
    "instance-family",
    "instance-generation",
    "instance-size",
    "instance-cpu",
    "instance-cpu-manufacturer",
    "instance-cpu-sustained-clock-speed-mhz",
    "instance-memory",
    "instance-ebs-bandwidth",
    "instance-network-bandwidth",
    "instance-local-nvme",
    "instance-hypervisor",
    "instance-encryption-in-transit-supported",
    "instance-capability-flex",
    "instance-tenancy",
    "instance-gpu-name",
    "instance-gpu-manufacturer",
    "instance-gpu-count",
    "instance-gpu-memory",
    "instance-accelerator-name",
    "instance-accelerator-manufacturer",
    "instance-accelerator-count",
    "capacity-reservation-id",
    "capacity-reservation-type",
    "capacity-reservation-interruptible",
    "placement-group-id",
    "placement-group-partition",
    "nitro-sandbox",
};

constexpr std::string_view kRestrictedDomains[] = {"karpenter.sh", "karpenter.k8s.aws"};
constexpr std::string_view kKubernetesDomains[] = {"kubernetes.io", "k8s.io"};

/// Whether the key is in one of the domains, or within one.
bool is_within(std::string_view key, std::span<const std::string_view> domains) {
  const auto slash = key.find('/');
  const std::string_view domain = slash == std::string_view::npos ? std::string_view() : key.substr(0, slash);
  return std::ranges::any_of(domains, [&](std::string_view other) {
    return domain == other || (domain.ends_with(other) && domain[domain.size() - other.size() - 1] == '.');
  });
}

}  // namespace

std::string normalized_key(std::string_view key) {
  const auto* alias = std::ranges::find(kAliases, key, [](const auto& pair) { return pair.first; });
  return std::string(alias == kAliases.end() ? key : alias->second);
}

bool is_well_known(std::string_view key) {
  if (std::ranges::find(kWellKnown, key) != std::end(kWellKnown)) return true;
  if (!key.starts_with(kAwsPrefix)) return false;
  return std::ranges::find(kAwsKeys, key.substr(kAwsPrefix.size())) != std::end(kAwsKeys);
}

bool is_restricted(std::string_view key) {
  if (key == "karpenter.sh/nodepool" || key == kHostname) return true;
  return !is_well_known(key) && is_within(key, kRestrictedDomains);
}

bool is_kubernetes_label(std::string_view key) { return is_within(key, kKubernetesDomains); }

std::string region_of(const std::string& zone) {
  const bool lettered = zone.size() > 2 && std::islower(static_cast<unsigned char>(zone.back())) != 0 &&
                        std::isdigit(static_cast<unsigned char>(zone[zone.size() - 2])) != 0;
  return lettered ? zone.substr(0, zone.size() - 1) : std::string();
}

}  // namespace qm::autoscaler
