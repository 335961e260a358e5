#include "known_kinds.hpp"

#include "qm/config/names.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace qm::config {
namespace {

std::string api_version(std::string_view group, std::string_view version) {
  return group.empty() ? std::string(version) : fmt::format("{}/{}", group, version);
}

/// "kueue.x-k8s.io/v1beta1 or kueue.x-k8s.io/v1beta2"
std::string api_versions(const ApiGroup& known) {
  std::string out;
  for (const auto version : known.versions) {
    out += fmt::format("{}{}", out.empty() ? "" : " or ", api_version(known.group, version));
  }
  return out;
}

bool has(const std::vector<std::string_view>& all, std::string_view one) {
  return std::ranges::find(all, one) != all.end();
}

/// A list of a kind is treated as the kind.
std::string_view without_list(std::string_view kind) {
  if (kind.size() > 4 && kind.ends_with("List")) kind.remove_suffix(4);
  return kind;
}

const ApiGroup* group_of_kind(std::string_view kind) {
  const auto& all = api_groups();
  const auto found = std::ranges::find_if(all, [&](const ApiGroup& g) { return has(g.kinds, kind); });
  return found == all.end() ? nullptr : &*found;
}

KindFault unknown_group(std::string_view group, std::string_view version, std::string_view kind) {
  std::vector<std::string_view> groups;
  for (const auto& known : api_groups()) groups.push_back(known.group);
  const auto meant = group.empty() ? std::string_view() : nearest(group, groups);
  const auto* owner = group_of_kind(without_list(kind));
  if (meant.empty()) return {};
  const auto& known = *std::ranges::find(api_groups(), meant, &ApiGroup::group);
  if (owner != nullptr && owner != &known) return {};
  return {"apiVersion", fmt::format("{} is not a known API group", group),
          fmt::format("did you mean {}?",
                      has(known.versions, version) ? api_version(meant, version) : api_versions(known))};
}

}  // namespace

const std::vector<ApiGroup>& api_groups() {
  static const std::vector<ApiGroup> groups{
      {"batch", {"v1"}, {"Job", "CronJob"}},
      {"",
       {"v1"},
       {"Pod",
        "Namespace",
        "Node",
        "Service",
        "ConfigMap",
        "Secret",
        "ServiceAccount",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "ResourceQuota",
        "LimitRange",
        "ReplicationController",
        "Event",
        "Endpoints",
        "Binding",
        "ComponentStatus",
        "PodTemplate",
        "Status",
        "Config",
        "List"}},
      {"apps", {"v1"}, {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ControllerRevision"}},
      {"scheduling.k8s.io", {"v1"}, {"PriorityClass"}},
      {"kueue.x-k8s.io",
       {"v1beta1", "v1beta2"},
       {"ClusterQueue", "LocalQueue", "Cohort", "ResourceFlavor", "WorkloadPriorityClass", "Workload", "AdmissionCheck",
        "Topology", "ProvisioningRequestConfig", "MultiKueueConfig", "MultiKueueCluster"}},
      {"karpenter.sh", {"v1", "v1beta1"}, {"NodePool", "NodeClaim", "NodeOverlay"}},
      {"karpenter.k8s.aws", {"v1", "v1beta1"}, {"EC2NodeClass"}},
      {"quartermaster.dev", {"v1alpha1"}, {"PricePlan", "CheckpointPolicy", "Budget"}},
      {"scheduling.volcano.sh", {"v1beta1"}, {"Queue", "PodGroup"}},
      {"jobset.x-k8s.io", {"v1alpha2"}, {"JobSet"}},
      {"leaderworkerset.x-k8s.io", {"v1"}, {"LeaderWorkerSet"}},
      {"ray.io", {"v1"}, {"RayCluster", "RayJob", "RayService", "RayCronJob"}},
      {"kubeflow.org",
       {"v1", "v2beta1"},
       {"PyTorchJob", "MPIJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MXJob", "Notebook", "Profile",
        "PodDefault"}}};
  return groups;
}

KindFault kind_fault(std::string_view group, std::string_view version, std::string_view kind) {
  const auto& all = api_groups();
  const auto known = std::ranges::find(all, group, &ApiGroup::group);
  const std::string_view plain = without_list(kind);
  const std::string given = api_version(group, version);
  if (group.empty() && version.empty()) {
    const auto* owner = group_of_kind(kind);
    if (owner == nullptr) return {};
    return {"apiVersion", "is missing", fmt::format("add apiVersion: {}", api_versions(*owner))};
  }
  if (known == all.end()) return unknown_group(group, version, kind);
  const bool has_kind = has(known->kinds, kind) || has(known->kinds, plain);
  if (!has(known->versions, version)) {
    const auto* owner = has_kind ? &*known : group_of_kind(plain);
    return {"apiVersion",
            fmt::format("{} {} is not a known version of {}", given, kind, group.empty() ? "the core API" : group),
            fmt::format("use {}", api_versions(owner == nullptr ? *known : *owner))};
  }
  if (has_kind) return {};
  const std::string message = fmt::format("{} is not a known kind of {}", kind, given);
  if (const auto* owner = group_of_kind(plain)) {
    return {"apiVersion", message, fmt::format("{} is a kind of {}", plain, api_versions(*owner))};
  }
  const auto meant = nearest(kind, known->kinds);
  if (!meant.empty()) return {"kind", message, fmt::format("did you mean {}?", meant)};
  for (const auto& other : all) {
    if (const auto near = nearest(kind, other.kinds); !near.empty()) {
      return {"kind", message, fmt::format("did you mean {} of {}?", near, api_versions(other))};
    }
  }
  return {"kind", message, fmt::format("use one of {}", fmt::join(known->kinds, ", "))};
}

}  // namespace qm::config
