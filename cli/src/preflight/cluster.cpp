#include "cluster.hpp"

#include <algorithm>
#include <charconv>

namespace qm::cli {
namespace {

const kube::Resource kDaemonSets{"apps", "v1", "daemonsets", true};
const kube::Resource kDeployments{"apps", "v1", "deployments", true};

const Json& labels_of(const Json& object) { return object["metadata"]["labels"]; }

/// Capacities of GPUs: whole ones and slices.
bool is_gpu_resource(std::string_view name) {
  return name == "nvidia.com/gpu" || name.starts_with("nvidia.com/gpu.") || name.starts_with("nvidia.com/mig-") ||
         name == "amd.com/gpu";
}

}  // namespace

const std::vector<ComponentName>& components() {
  static const std::vector<ComponentName> all{
      {Component::kDriver, "driver", "driver", {"nvidia-driver", "nvidia-gpu-driver", "nvidia-vgpu-driver"}},
      {Component::kToolkit, "toolkit", "container toolkit", {"nvidia-container-toolkit"}},
      {Component::kDevicePlugin, "devicePlugin", "device plugin", {"device-plugin"}},
      {Component::kFeatureDiscovery, "gfd", "feature discovery", {"gpu-feature-discovery"}},
      {Component::kExporter, "dcgmExporter", "DCGM exporter", {"dcgm-exporter"}},
      {Component::kMigManager, "migManager", "MIG manager", {"mig-manager"}},
  };
  return all;
}

Result<Cluster> read_cluster(kube::Client& client, const std::string& node) {
  Cluster out;
  const auto read = [&](const kube::Resource& kind, std::vector<Json>& to) -> Status {
    auto found = client.list_all(kind, {});
    if (!found) return fail(found.error().with_context(kind.plural));
    to = std::move(*found);
    return {};
  };
  QM_TRY(read(kube::resources::kNodes, out.nodes));
  QM_TRY(read(kDaemonSets, out.daemon_sets));
  QM_TRY(read(kDeployments, out.deployments));
  if (node.empty()) return out;
  kube::ListOptions of_node;
  of_node.field_selector = "spec.nodeName=" + node;
  do {
    auto page = client.list(kube::resources::kPods, {}, of_node);
    if (!page) return fail(page.error().with_context("pods"));
    std::ranges::move(page->items, std::back_inserter(out.pods));
    of_node.continue_token = page->continue_token;
  } while (!of_node.continue_token.empty());
  return out;
}

const Json* daemon_set_of(const Cluster& cluster, Component component) {
  const auto name = std::ranges::find(components(), component, &ComponentName::component);
  const auto marked = [&](const std::string& text) {
    return std::ranges::any_of(name->marks, [&](auto mark) { return text.find(mark) != std::string::npos; });
  };
  const auto found = std::ranges::find_if(cluster.daemon_sets, [&](const Json& set) {
    const auto& labels = labels_of(set);
    return marked(set["metadata"]["name"].string()) || marked(labels["app"].string()) ||
           marked(labels["app.kubernetes.io/name"].string());
  });
  return found == cluster.daemon_sets.end() ? nullptr : &*found;
}

bool has_gpus(const Json& node) {
  if (labels_of(node)["nvidia.com/gpu.present"].string() == "true" || !gpu_product(node).empty() ||
      !provider_driver(node).empty())
    return true;
  return std::ranges::any_of(node["status"]["capacity"].members(), [](const auto& capacity) {
    return is_gpu_resource(capacity.first) && capacity.second.string() != "0";
  });
}

std::string gpu_product(const Json& node) { return labels_of(node)["nvidia.com/gpu.product"].string(); }

int driver_major(const Json& node) {
  for (const char* label : {"nvidia.com/cuda.driver-version.major", "nvidia.com/cuda.driver.major"}) {
    const auto& text = labels_of(node)[label].string();
    int major = 0;
    const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), major);
    if (bad == std::errc() && end == text.data() + text.size()) return major;
  }
  return 0;
}

std::string provider_driver(const Json& node) {
  const auto& labels = labels_of(node);
  // The label of a GKE pool names the driver that GKE installs; with "disabled" it installs none.
  if (!labels["cloud.google.com/gke-accelerator"].string().empty() &&
      labels["cloud.google.com/gke-gpu-driver-version"].string() != "disabled")
    return "GKE";
  if (labels["kubernetes.azure.com/accelerator"].string() == "nvidia") return "AKS";
  if (labels["eks.amazonaws.com/compute-type"].string() == "auto" &&
      !labels["eks.amazonaws.com/instance-gpu-name"].string().empty())
    return "EKS Auto Mode";
  return {};
}

}  // namespace qm::cli
