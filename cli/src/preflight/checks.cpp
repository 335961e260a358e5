// Required and forbidden components of a GPU cluster.
//
//   DRIVER, DEVICE_PLUGIN, EXPORTER   required: from a DaemonSet, or from the provider's nodes (never the exporter)
//   TOOLKIT, FEATURE_DISCOVERY, MIG_MANAGER   reported, not required
//   DOUBLE_DRIVER                     the provider's nodes have a driver, and the operator installs another
//   MIN_DRIVER_535                    Hopper and Blackwell with a driver that supports neither their MIG nor their
//                                     NVSwitch
//   VALUES                            the components that an operator's values enable are present, and no others
#include "checks.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace qm::cli {
namespace {

constexpr int kLeastDriver = 535;

std::string id_of(Component component) {
  switch (component) {
    case Component::kDriver:
      return "DRIVER";
    case Component::kToolkit:
      return "TOOLKIT";
    case Component::kDevicePlugin:
      return "DEVICE_PLUGIN";
    case Component::kFeatureDiscovery:
      return "FEATURE_DISCOVERY";
    case Component::kExporter:
      return "EXPORTER";
    case Component::kMigManager:
      return "MIG_MANAGER";
  }
  return {};
}

std::string name_of(const Json& object) { return object["metadata"]["name"].string(); }
std::string path_of(const Json& object) { return object["metadata"]["namespace"].string() + "/" + name_of(object); }

bool is_a_must(Component component) {
  return component == Component::kDriver || component == Component::kDevicePlugin || component == Component::kExporter;
}

/// Names of nodes, only the first few of many.
std::string some(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  const std::vector<std::string> first(names.begin(), names.begin() + std::min(names.size(), kShown));
  return fmt::format("{}{}", fmt::join(first, ", "),
                     names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "");
}

template <class Is>
std::vector<std::string> nodes_where(const Cluster& cluster, const Is& is) {
  std::vector<std::string> out;
  for (const auto& node : cluster.nodes) {
    if (is(node)) out.push_back(name_of(node));
  }
  return out;
}

/// Driver and plugin may be part of the provider's nodes, if all GPU nodes have them.
bool provided(const Cluster& cluster, Component component) {
  if (component != Component::kDriver && component != Component::kDevicePlugin) return false;
  const auto gpus = nodes_where(cluster, has_gpus);
  return !gpus.empty() && nodes_where(cluster, [](const Json& n) { return !provider_driver(n).empty(); }) == gpus;
}

Checked look_for(const Cluster& cluster, const ComponentName& name) {
  Checked out{id_of(name.component)};
  if (const Json* set = daemon_set_of(cluster, name.component)) {
    const auto wanted = (*set)["status"]["desiredNumberScheduled"].integer();
    const auto ready = (*set)["status"]["numberReady"].integer();
    out.found = fmt::format("{}: DaemonSet {}, ready on {} of {} nodes", name.words, path_of(*set), ready, wanted);
    if (ready < wanted) {
      out.outcome = Outcome::kWarn;
      out.remedy =
          fmt::format("kubectl -n {} describe daemonset {}", (*set)["metadata"]["namespace"].string(), name_of(*set));
    }
    return out;
  }
  if (provided(cluster, name.component)) {
    out.found = fmt::format("{}: comes with the provider's nodes", name.words);
    return out;
  }
  out.outcome = is_a_must(name.component) ? Outcome::kFail : Outcome::kNote;
  out.found = fmt::format("{}: absent", name.words);
  if (is_a_must(name.component)) {
    out.remedy = fmt::format("install NVIDIA's GPU Operator with {}.enabled=true, or the part alone", name.key);
  }
  return out;
}

void double_driver(const Cluster& cluster, const OperatorFlags* flags, std::vector<Checked>& out) {
  const auto theirs = nodes_where(cluster, [](const Json& n) { return !provider_driver(n).empty(); });
  const bool planned = flags != nullptr && flags->at("driver");
  if (theirs.empty() || (!planned && daemon_set_of(cluster, Component::kDriver) == nullptr)) return;
  out.push_back({"DOUBLE_DRIVER", Outcome::kWarn,
                 fmt::format("{} have a preinstalled driver, and the operator installs another one", some(theirs)),
                 "set driver.enabled=false in the operator's values, or make the pool without the provider's driver"});
}

void least_driver(const Cluster& cluster, std::vector<Checked>& out) {
  const auto needs = [](const Json& node) {
    static constexpr std::array kFamilies{"H100", "H200", "GH200", "H800", "H20", "B100", "B200", "GB200", "B300"};
    const auto product = gpu_product(node);
    return std::ranges::any_of(kFamilies,
                               [&](const char* family) { return product.find(family) != std::string::npos; });
  };
  const auto old = nodes_where(
      cluster, [&](const Json& n) { return needs(n) && driver_major(n) > 0 && driver_major(n) < kLeastDriver; });
  if (old.empty()) return;
  out.push_back({"MIN_DRIVER_535", Outcome::kFail,
                 fmt::format("{} have Hopper or Blackwell GPUs and a driver before {}", some(old), kLeastDriver),
                 fmt::format("set driver.version in the operator's values to {} or later", kLeastDriver)});
}

/// Compares the operator's values with the running components.
void values(const Cluster& cluster, const OperatorFlags& flags, std::vector<Checked>& out) {
  std::vector<std::string> on, off;
  Outcome outcome = Outcome::kPass;
  std::string remedy;
  for (const auto& name : components()) {
    const bool asked = flags.at(name.key), there = daemon_set_of(cluster, name.component) != nullptr;
    (asked ? on : off).emplace_back(name.key);
    if (asked == there) continue;
    outcome = Outcome::kWarn;
    remedy += fmt::format("{}{} is {} by the values and {}", remedy.empty() ? "" : "; ", name.key, asked ? "on" : "off",
                          there ? "runs" : "absent");
  }
  out.push_back({"VALUES", outcome, fmt::format("on: {}; off: {}", fmt::join(on, ", "), fmt::join(off, ", ")), remedy});
}

}  // namespace

OperatorFlags operator_flags(const Json& values) {
  OperatorFlags out;
  for (const auto& name : components()) {
    const auto& enabled = values[name.key]["enabled"];
    out[name.key] = enabled.is_null() || enabled.boolean();
  }
  return out;
}

std::vector<Checked> check_stack(const Cluster& cluster, const OperatorFlags* flags) {
  std::vector<Checked> out;
  for (const auto& name : components()) out.push_back(look_for(cluster, name));
  double_driver(cluster, flags, out);
  least_driver(cluster, out);
  if (flags != nullptr) values(cluster, *flags, out);
  return out;
}

std::vector<Checked> check_node(const Cluster& cluster, const std::string& node) {
  const auto found = std::ranges::find(cluster.nodes, node, name_of);
  if (found == cluster.nodes.end()) {
    return {{"NODE", Outcome::kFail, fmt::format("there is no node {}", node), "kubectl get nodes lists them"}};
  }
  std::vector<Checked> out;
  std::vector<std::string> labels;
  for (const auto& [key, value] : (*found)["metadata"]["labels"].members()) {
    if (key.starts_with("nvidia.com/")) labels.push_back(key + "=" + value.string());
  }
  out.push_back(labels.empty()
                    ? Checked{"LABELS", Outcome::kFail, "no label of nvidia.com/",
                              "GPU feature discovery sets them: check that it is installed and runs on this node"}
                    : Checked{"LABELS", Outcome::kPass, fmt::format("{}", fmt::join(labels, " ")), {}});

  std::vector<std::string> offered;
  for (const auto& [name, amount] : (*found)["status"]["allocatable"].members()) {
    if (name.starts_with("nvidia.com/") && amount.string() != "0") offered.push_back(amount.string() + " " + name);
  }
  out.push_back(offered.empty() ? Checked{"CAPACITY", Outcome::kFail, "it offers no GPU",
                                          "the device plugin registers them: check its pod on this node"}
                                : Checked{"CAPACITY", Outcome::kPass, fmt::format("{}", fmt::join(offered, ", ")), {}});

  const auto exporter = std::ranges::find_if(
      cluster.pods, [](const Json& pod) { return name_of(pod).find("dcgm-exporter") != std::string::npos; });
  if (exporter == cluster.pods.end()) {
    out.push_back({"EXPORTER", Outcome::kFail, "no pod of the DCGM exporter",
                   "its DaemonSet has to tolerate this node's taints"});
  } else {
    const auto& phase = (*exporter)["status"]["phase"].string();
    out.push_back({"EXPORTER", phase == "Running" ? Outcome::kPass : Outcome::kFail,
                   fmt::format("pod {} is {}", path_of(*exporter), phase),
                   phase == "Running" ? "" : "kubectl describe it"});
  }
  return out;
}

bool any_failed(const std::vector<Checked>& checks) {
  return std::ranges::any_of(checks, [](const Checked& c) { return c.outcome == Outcome::kFail; });
}

}  // namespace qm::cli
