// Nodes and pods under the names of Karpenter.
#include "qm/autoscaler/metrics/karpenter_metrics.hpp"
#include "qm/kube/client.hpp"
#include "qm/model/quantity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <tuple>

namespace qm::autoscaler {
namespace {

/// Labels of a node that are labels of its metrics, by the part after the slash.
constexpr std::array<std::string_view, 18> kNodeLabels{"karpenter.sh/nodepool",
                                                       "karpenter.sh/capacity-type",
                                                       "topology.kubernetes.io/zone",
                                                       "topology.kubernetes.io/region",
                                                       "node.kubernetes.io/instance-type",
                                                       "kubernetes.io/arch",
                                                       "kubernetes.io/os",
                                                       "karpenter.k8s.aws/instance-category",
                                                       "karpenter.k8s.aws/instance-family",
                                                       "karpenter.k8s.aws/instance-generation",
                                                       "karpenter.k8s.aws/instance-size",
                                                       "karpenter.k8s.aws/instance-cpu",
                                                       "karpenter.k8s.aws/instance-memory",
                                                       "karpenter.k8s.aws/instance-network-bandwidth",
                                                       "karpenter.k8s.aws/instance-gpu-name",
                                                       "karpenter.k8s.aws/instance-gpu-manufacturer",
                                                       "karpenter.k8s.aws/instance-gpu-count",
                                                       "karpenter.k8s.aws/instance-gpu-memory"};

std::string underscored(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::map<std::string, double> amounts_of(const Json& quantities) {
  std::map<std::string, double> out;
  for (const auto& [name, value] : quantities.members()) {
    const auto amount = Quantity::parse(value.is_string() ? value.string() : value.dump());
    if (!amount) continue;
    constexpr double kMilli = 1000;
    out[name] = name == "cpu" ? static_cast<double>(amount->milli()) / kMilli : static_cast<double>(amount->units());
  }
  return out;
}

/// The effective requests of a pod: its containers together, or an init container that requests more.
std::map<std::string, double> requests_of(const Json& spec) {
  std::map<std::string, double> out, first;
  for (const Json& container : spec["containers"].items()) {
    for (const auto& [name, amount] : amounts_of(container["resources"]["requests"])) out[name] += amount;
  }
  for (const Json& container : spec["initContainers"].items()) {
    const bool stays = container["restartPolicy"].string() == "Always";
    for (const auto& [name, amount] : amounts_of(container["resources"]["requests"])) {
      if (stays) out[name] += amount;
      if (!stays) first[name] = std::max(first[name], amount);
    }
  }
  for (const auto& [name, amount] : first) out[name] = std::max(out[name], amount);
  for (const auto& [name, amount] : amounts_of(spec["overhead"])) out[name] += amount;
  return out;
}

std::string value_of(const metrics::Labels& labels, std::string_view name) {
  const auto at = std::ranges::find(labels, name, &metrics::Labels::value_type::first);
  return at == labels.end() ? std::string() : at->second;
}

void append(metrics::Family& to, const metrics::Labels& labels, const std::map<std::string, double>& amounts) {
  for (const auto& [resource, amount] : amounts) {
    metrics::Labels own = labels;
    own.emplace_back("resource_type", underscored(resource));
    to.series.push_back({std::move(own), amount});
  }
}

}  // namespace

void ObjectMetrics::on_pod(const Json& pod, bool deleted) {
  const std::string uid = kube::uid_of(pod);
  const std::scoped_lock lock(mutex_);
  if (deleted) {
    pods_.erase(uid);
    return;
  }
  Pod row;
  row.ns = kube::namespace_of(pod);
  row.name = kube::name_of(pod);
  row.node = pod["spec"]["nodeName"].string();
  row.phase = pod["status"]["phase"].string();
  if (const auto& owners = pod["metadata"]["ownerReferences"].items(); !owners.empty()) {
    const Json& owner = owners.front();
    row.daemon = owner["kind"].string() == "DaemonSet";
    row.owner = fmt::format("/apis/{}/namespaces/{}/{}s/{}", owner["apiVersion"].string(), row.ns,
                            underscored(owner["kind"].string()), owner["name"].string());
  }
  const bool holds = row.phase != "Succeeded" && row.phase != "Failed";
  if (holds && !row.node.empty()) row.requests = requests_of(pod["spec"]);
  pods_.insert_or_assign(uid, std::move(row));
}

void ObjectMetrics::on_node(const Json& node, bool deleted) {
  const std::string name = kube::name_of(node);
  const std::scoped_lock lock(mutex_);
  if (deleted) {
    nodes_.erase(name);
    return;
  }
  Node row;
  const Json& labels = node["metadata"]["labels"];
  row.labels.emplace_back("node_name", name);
  for (const auto& key : kNodeLabels)
    row.labels.emplace_back(underscored(key.substr(key.find('/') + 1)), labels[std::string(key)].string());
  row.labels.emplace_back("phase", node["status"]["phase"].string());
  row.labels.emplace_back("managed", value_of(row.labels, "nodepool").empty() ? "false" : "true");
  row.allocatable = amounts_of(node["status"]["allocatable"]);
  nodes_.insert_or_assign(name, std::move(row));
}

metrics::Labels ObjectMetrics::labels_of(const Pod& pod) const {
  const auto at = nodes_.find(pod.node);
  const auto of_node = [&](std::string_view label) {
    return at == nodes_.end() ? std::string() : value_of(at->second.labels, label);
  };
  return {{"name", pod.name},
          {"namespace", pod.ns},
          {"owner", pod.owner},
          {"node", pod.node},
          {"nodepool", of_node("nodepool")},
          {"zone", of_node("zone")},
          {"arch", of_node("arch")},
          {"capacity_type", of_node("capacity_type")},
          {"instance_type", of_node("instance_type")},
          {"phase", pod.phase},
          {"scheduled", pod.node.empty() ? "false" : "true"}};
}

std::vector<metrics::Family> ObjectMetrics::families() const {
  const auto gauge = [](const char* name, const char* help) {
    return metrics::Family{name, help, metrics::Family::Kind::kGauge, {}};
  };
  metrics::Family state = gauge("karpenter_pods_state", "1 for each pod, with its node and phase");
  metrics::Family allocatable =
      gauge("karpenter_nodes_allocatable", "Allocatable amounts of a node, in cores and bytes");
  metrics::Family daemons = gauge("karpenter_nodes_total_daemon_requests", "Requests of the DaemonSet pods on a node");
  metrics::Family requests = gauge("karpenter_nodes_total_pod_requests", "Requests of all pods on a node");
  const std::scoped_lock lock(mutex_);
  std::map<std::string, std::pair<Amounts, Amounts>> requested;  // by node: of DaemonSets, of all pods
  for (const auto& [uid, pod] : pods_) {
    state.series.push_back({labels_of(pod), 1});
    auto& [of_daemons, of_all] = requested[pod.node];
    for (const auto& [resource, amount] : pod.requests) {
      of_all[resource] += amount;
      if (pod.daemon) of_daemons[resource] += amount;
    }
  }
  for (const auto& [name, node] : nodes_) {
    append(allocatable, node.labels, node.allocatable);
    const auto at = requested.find(name);
    auto [of_daemons, of_all] = at == requested.end() ? std::pair<Amounts, Amounts>{} : at->second;
    for (const auto* resource : {"cpu", "memory"}) {
      of_daemons.try_emplace(resource, 0);
      of_all.try_emplace(resource, 0);
    }
    append(daemons, node.labels, of_daemons);
    append(requests, node.labels, of_all);
  }
  return {std::move(state), std::move(allocatable), std::move(daemons), std::move(requests)};
}

}  // namespace qm::autoscaler
