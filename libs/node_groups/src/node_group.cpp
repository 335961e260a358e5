// The NodePool of a node group.
#include "qm/node_groups/node_group.hpp"

#include "qm/config/names.hpp"
#include "qm/settings/kind.hpp"

#include <algorithm>
#include <cctype>

namespace qm::node_groups {
namespace {

Json requirement(std::string_view key, const std::vector<std::string>& values) {
  Json list = Json::array();
  for (const auto& value : values) list.push_back(value);
  return Json::object({{"key", key}, {"operator", "In"}, {"values", std::move(list)}});
}

Json requirements_of(const NodeGroup& group) {
  Json out = Json::array();
  if (group.provider == "aws" && !group.instance_type.empty()) {
    out.push_back(requirement(words::kInstanceType, {group.instance_type}));
  } else {
    if (!group.gpu_model.empty()) out.push_back(requirement("karpenter.k8s.aws/instance-gpu-name", {group.gpu_model}));
    if (group.gpus > 0)
      out.push_back(requirement("karpenter.k8s.aws/instance-gpu-count", {std::to_string(group.gpus)}));
  }
  out.push_back(requirement(words::kCapacityType, {group.spot ? "spot" : "on-demand"}));
  if (!group.zones.empty()) out.push_back(requirement(words::kZone, group.zones));
  return out;
}

}  // namespace

std::string object_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const auto lower = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const bool kept = std::isalnum(static_cast<unsigned char>(lower)) != 0 || lower == '.';
    if (kept || (!out.empty() && out.back() != '-')) out.push_back(kept ? lower : '-');
  }
  while (!out.empty() && (out.back() == '-' || out.back() == '.')) out.pop_back();
  return config::name_fault(config::NameRule::kSubdomain, out) ? "node-group" : out;
}

Json node_pool_of(const NodeGroup& group, std::string_view scaling_group, Duration unneeded) {
  Json metadata = Json::object({{"name", object_name(group.name)}});
  if (!scaling_group.empty()) metadata.set("annotations").set(words::kScalingGroup, std::string(scaling_group));
  Json node_template = Json::object();
  for (const auto& [key, value] : group.labels) node_template.set("metadata").set("labels").set(key, value);
  Json& nodes = node_template.set("spec");
  nodes.set("requirements", requirements_of(group));
  Json taints = Json::array();
  for (const Taint& taint : group.taints) {
    Json one = Json::object({{"key", taint.key}, {"effect", taint.effect}});
    if (!taint.value.empty()) one.set("value", taint.value);
    taints.push_back(std::move(one));
  }
  if (taints.size() > 0) nodes.set("taints", std::move(taints));
  nodes.set("nodeClassRef",
            Json::object({{"group", "karpenter.k8s.aws"}, {"kind", "EC2NodeClass"}, {"name", "default"}}));
  Json spec = Json::object({{"template", std::move(node_template)}});
  Json limits = Json::object({{"nodes", std::to_string(group.max)}});
  if (group.autoscaled && group.gpus > 0) limits.set(words::kGpuResource, std::to_string(group.gpus * group.max));
  if (!group.autoscaled) spec.set("replicas", group.max);
  spec.set("limits", std::move(limits));
  if (group.autoscaled) {
    spec.set("disruption", Json::object({{"consolidationPolicy", "WhenEmpty"},
                                         {"consolidateAfter",
                                          unneeded == Duration::max() ? "Never" : settings::duration_text(unneeded)}}));
  }
  return Json::object({{"apiVersion", "karpenter.sh/v1"},
                       {"kind", "NodePool"},
                       {"metadata", std::move(metadata)},
                       {"spec", std::move(spec)}});
}

}  // namespace qm::node_groups
