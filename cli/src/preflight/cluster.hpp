#pragma once
#include "qm/base/json.hpp"
#include "qm/kube/client.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace qm::cli {

/// The objects that preflight checks, from one read.
struct Cluster {
  std::vector<Json> nodes, daemon_sets, deployments, pods;
};

/// Reads the cluster; only the pods of `node` if one is named. Fails as kube::Client does, naming the kind.
Result<Cluster> read_cluster(kube::Client& client, const std::string& node = {});

/// The components that make GPUs usable on a node, in the order in which a node needs them.
enum class Component { kDriver, kToolkit, kDevicePlugin, kFeatureDiscovery, kExporter, kMigManager };
struct ComponentName {
  Component component;
  const char* key;                      ///< in the values of NVIDIA's GPU Operator
  const char* words;                    ///< display name
  std::vector<std::string_view> marks;  ///< substrings of the name or an app label of its DaemonSet
};
[[nodiscard]] const std::vector<ComponentName>& components();

/// The DaemonSet that runs a component; null if there is none.
[[nodiscard]] const Json* daemon_set_of(const Cluster& cluster, Component component);

[[nodiscard]] bool has_gpus(const Json& node);  ///< by its labels or its capacity
[[nodiscard]] std::string gpu_product(const Json& node);
/// Major version of the driver from the label of feature discovery; 0 if the label is missing.
[[nodiscard]] int driver_major(const Json& node);
/// "GKE", "AKS" or "EKS Auto Mode" if the provider installs driver and plugin; else empty.
[[nodiscard]] std::string provider_driver(const Json& node);

}  // namespace qm::cli
