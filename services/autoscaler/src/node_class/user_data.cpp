// The user data of a node: how its image joins the cluster, with its labels, taints and kubelet settings.
#include "bottlerocket.hpp"
#include "qm/autoscaler/node_class/launch_parameters.hpp"
#include "qm/base/digest.hpp"
#include "qm/config/crd.hpp"
#include "qm/config/manifest.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace qm::autoscaler {
namespace {

using config::NodeClass;
using config::NodeClassKubelet;

/// "a=b,c=d" in order of key, as the kubelet's argument --node-labels.
std::string label_argument(const Labels& labels) {
  std::vector<std::string> pairs;
  for (const auto& [key, value] : labels) pairs.push_back(fmt::format("{}={}", key, value));
  return fmt::format("{}", fmt::join(pairs, ","));
}

Json object_of(const std::map<std::string, std::string>& map) {
  Json out = Json::object();
  for (const auto& [key, value] : map) out.set(key, value);
  return out;
}

/// The settings of the class as fields of a KubeletConfiguration; those that the class leaves open are absent.
Json kubelet_configuration(const NodeClassKubelet& kubelet, const std::vector<Taint>& taints) {
  Json out = Json::object();
  const auto number = [&](const char* name, std::int64_t value) {
    if (value >= 0) out.set(name, value);
  };
  const auto map = [&](const char* name, const std::map<std::string, std::string>& value) {
    if (!value.empty()) out.set(name, object_of(value));
  };
  if (!kubelet.cluster_dns.empty()) {
    Json list = Json::array();
    for (const auto& address : kubelet.cluster_dns) list.push_back(address);
    out.set("clusterDNS", std::move(list));
  }
  number("maxPods", kubelet.max_pods);
  number("podsPerCore", kubelet.pods_per_core);
  map("systemReserved", kubelet.system_reserved);
  map("kubeReserved", kubelet.kube_reserved);
  map("evictionHard", kubelet.eviction_hard);
  map("evictionSoft", kubelet.eviction_soft);
  map("evictionSoftGracePeriod", kubelet.eviction_soft_grace);
  number("evictionMaxPodGracePeriod", kubelet.eviction_max_grace_s);
  number("imageGCHighThresholdPercent", kubelet.image_gc_high);
  number("imageGCLowThresholdPercent", kubelet.image_gc_low);
  if (kubelet.cpu_cfs_quota) out.set("cpuCFSQuota", *kubelet.cpu_cfs_quota);
  if (!taints.empty()) {
    Json list = Json::array();
    for (const Taint& taint : taints) {
      Json one = Json::object({{"effect", taint.effect}, {"key", taint.key}});
      if (!taint.value.empty()) one.set("value", taint.value);
      list.push_back(std::move(one));
    }
    out.set("registerWithTaints", std::move(list));
  }
  return out;
}

// ---- MIME archives ----

struct Part {
  std::string type, text;
};
constexpr std::string_view kScript = "text/x-shellscript; charset=\"us-ascii\"";
constexpr std::string_view kNodeConfig = "application/node.eks.aws";

/// The lines between the boundaries of a MIME archive.
Result<std::vector<Part>> read_archive(const std::string& text) {
  const auto invalid = [](const char* what) {
    return fail(Error{Code::kInvalid, what, "spec.userData", "write a script, a NodeConfig, or a valid MIME archive"});
  };
  const auto name = text.find("boundary=");
  if (name == std::string::npos) return invalid("the MIME archive has no boundary");
  auto boundary = text.substr(name + 9, text.find_first_of("\r\n", name) - name - 9);
  std::erase(boundary, '"');
  const std::string mark = "--" + boundary.substr(0, boundary.find(';'));
  std::vector<Part> out;
  auto at = text.find("\n" + mark);
  while (at != std::string::npos) {
    const auto head = text.find('\n', at + 1);
    if (head == std::string::npos || text.compare(at + 1 + mark.size(), 2, "--") == 0) return out;
    const auto end = text.find("\n" + mark, head);
    if (end == std::string::npos) break;
    std::string part = text.substr(head + 1, end - head - 1);
    std::erase(part, '\r');
    const auto blank = part.find("\n\n");
    const auto type = part.find("Content-Type: ");
    if (blank == std::string::npos || type == std::string::npos || type > blank)
      return invalid("a part of the MIME archive has no Content-Type");
    out.push_back({part.substr(type + 14, part.find('\n', type) - type - 14), part.substr(blank + 2)});
    at = end;
  }
  return invalid("the MIME archive has no end");
}

/// The parts of the class's own user data.
Result<std::vector<Part>> own_parts(const std::string& text) {
  if (text.empty()) return std::vector<Part>{};
  if (text.starts_with("MIME-Version:") || text.starts_with("Content-Type: multipart")) return read_archive(text);
  const bool node_config = text.find("kind: NodeConfig") != std::string::npos && !text.starts_with("#!");
  return std::vector<Part>{{std::string(node_config ? kNodeConfig : kScript), text}};
}

std::string archive(const std::vector<Part>& parts) {
  std::string boundary = "//";
  while (std::ranges::any_of(parts, [&](const Part& p) { return p.text.find("--" + boundary) != std::string::npos; }))
    boundary += "/";
  std::string out = fmt::format("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{}\"\n\n", boundary);
  for (const Part& part : parts) {
    out += fmt::format("--{}\nContent-Type: {}\n\n{}{}", boundary, part.type, part.text,
                       part.text.ends_with('\n') ? "" : "\n");
  }
  return out + fmt::format("--{}--\n", boundary);
}

// ---- families ----

// The class's parts come first: a script runs before the node joins, and the last NodeConfig has precedence.
Result<std::string> al2023(const NodeClass& node_class, const ClusterIdentity& cluster,
                           const PlannedInstance& planned) {
  QM_ASSIGN(auto parts, own_parts(node_class.user_data));
  Json kubelet = Json::object();
  const Json configuration = kubelet_configuration(node_class.kubelet, planned.taints);
  if (configuration.size() > 0) kubelet.set("config", configuration);
  if (!planned.labels.empty())
    kubelet.set("flags", Json::array({fmt::format("--node-labels={}", label_argument(planned.labels))}));
  Json spec = Json::object({{"cluster", Json::object({{"name", cluster.name},
                                                      {"apiServerEndpoint", cluster.endpoint},
                                                      {"certificateAuthority", cluster.certificate_authority},
                                                      {"cidr", cluster.service_cidr}})}});
  if (node_class.raid0) spec.set("instance").set("localStorage").set("strategy", "RAID0");
  spec.set("kubelet", std::move(kubelet));
  const Json config =
      Json::object({{"apiVersion", "node.eks.aws/v1alpha1"}, {"kind", "NodeConfig"}, {"spec", std::move(spec)}});
  parts.push_back({std::string(kNodeConfig), config::to_yaml(config)});
  return archive(parts);
}

Result<std::string> al2(const NodeClass& node_class, const ClusterIdentity& cluster, const PlannedInstance& planned) {
  QM_ASSIGN(auto parts, own_parts(node_class.user_data));
  const NodeClassKubelet& kubelet = node_class.kubelet;
  std::vector<std::string> arguments;
  if (!planned.labels.empty()) arguments.push_back(fmt::format("--node-labels=\"{}\"", label_argument(planned.labels)));
  std::vector<std::string> taints;
  for (const Taint& taint : planned.taints)
    taints.push_back(fmt::format("{}={}:{}", taint.key, taint.value, taint.effect));
  if (!taints.empty()) arguments.push_back(fmt::format("--register-with-taints=\"{}\"", fmt::join(taints, ",")));
  const auto number = [&](const char* name, std::int64_t value) {
    if (value >= 0) arguments.push_back(fmt::format("--{}={}", name, value));
  };
  const auto map = [&](const char* name, char sign, const std::map<std::string, std::string>& value) {
    std::vector<std::string> pairs;
    for (const auto& [key, amount] : value) pairs.push_back(fmt::format("{}{}{}", key, sign, amount));
    if (!pairs.empty()) arguments.push_back(fmt::format("--{}=\"{}\"", name, fmt::join(pairs, ",")));
  };
  number("max-pods", kubelet.max_pods);
  number("pods-per-core", kubelet.pods_per_core);
  map("system-reserved", '=', kubelet.system_reserved);
  map("kube-reserved", '=', kubelet.kube_reserved);
  map("eviction-hard", '<', kubelet.eviction_hard);
  map("eviction-soft", '<', kubelet.eviction_soft);
  map("eviction-soft-grace-period", '=', kubelet.eviction_soft_grace);
  number("eviction-max-pod-grace-period", kubelet.eviction_max_grace_s);
  number("image-gc-high-threshold", kubelet.image_gc_high);
  number("image-gc-low-threshold", kubelet.image_gc_low);
  if (kubelet.cpu_cfs_quota) arguments.push_back(fmt::format("--cpu-cfs-quota={}", *kubelet.cpu_cfs_quota));
  std::string script = fmt::format(
      "#!/bin/bash -xe\nexec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1\n"
      "/etc/eks/bootstrap.sh '{}' --apiserver-endpoint '{}' --b64-cluster-ca '{}'",
      cluster.name, cluster.endpoint, cluster.certificate_authority);
  if (!kubelet.cluster_dns.empty()) script += fmt::format(" \\\n--dns-cluster-ip '{}'", kubelet.cluster_dns.front());
  if (kubelet.max_pods >= 0) script += " \\\n--use-max-pods false";
  if (node_class.raid0) script += " \\\n--local-disks raid0";
  if (!arguments.empty()) script += fmt::format(" \\\n--kubelet-extra-args '{}'", fmt::join(arguments, " "));
  parts.push_back({std::string(kScript), script});
  return archive(parts);
}

Status identified(const ClusterIdentity& cluster, std::string_view family) {
  const std::pair<const char*, const std::string*> needed[] = {{"cluster-name", &cluster.name},
                                                               {"cluster-endpoint", &cluster.endpoint}};
  for (const auto& [setting, value] : needed) {
    if (value->empty()) {
      return fail(Error{
          Code::kInvalid, fmt::format("nodes of the family {} cannot join: the setting {} is empty", family, setting),
          "spec.amiFamily", fmt::format("set --set {}=..., or use the family Custom with your own userData", setting)});
    }
  }
  return {};
}

}  // namespace

Result<std::string> user_data(const NodeClass& node_class, const ClusterIdentity& cluster,
                              const PlannedInstance& planned) {
  const std::string& family = node_class.ami_family;
  if (family == "Custom") return node_class.user_data;
  QM_TRY(identified(cluster, family));
  if (family == "AL2023") return al2023(node_class, cluster, planned);
  if (family == "AL2") return al2(node_class, cluster, planned);
  if (family == "Bottlerocket") return bottlerocket_settings(node_class, cluster, planned);
  return fail(Error{Code::kInvalid, fmt::format("instances of the family {} are not launched", family),
                    "spec.amiFamily", "use AL2023, Bottlerocket, AL2, or Custom with your own userData"});
}

std::string instance_profile_of(const NodeClass& node_class, const std::string& cluster, const std::string& region) {
  const std::string hash = sha256_hex(fmt::format("{}/{}/{}", cluster, region, node_class.name)).substr(0, 16);
  return fmt::format("{}_{}", cluster.empty() ? "quartermaster" : cluster.substr(0, 100), hash);
}

}  // namespace qm::autoscaler
