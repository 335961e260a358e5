// Presets: objects for a way to run a fleet, to be applied unchanged or edited first.
#include "commands.hpp"
#include "print.hpp"
#include "qm/base/json.hpp"
#include "yaml.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <ostream>

namespace qm::cli {
namespace {

constexpr const char* kTeam = "quartermaster.dev/team";
constexpr const char* kGpu = "nvidia.com/gpu";

Json object(const char* api_version, const char* kind, const std::string& name, const std::string& ns = {}) {
  Json metadata = Json::object({{"name", name}});
  if (!ns.empty()) metadata.set("namespace", ns);
  return Json::object({{"apiVersion", api_version}, {"kind", kind}}).set("metadata", std::move(metadata));
}

Json namespace_of(const std::string& team) {
  auto out = object("v1", "Namespace", team);
  out.set("metadata").set("labels").set(kTeam, team);
  return out;
}

Json local_queue(const std::string& team) {
  auto out = object("kueue.x-k8s.io/v1beta2", "LocalQueue", "default", team);
  out.set("spec").set("clusterQueue", team);
  return out;
}

/// Only the team's own namespace can use it.
Json cluster_queue(const std::string& team, const std::string& flavor, const std::string& resource, std::int64_t gpus,
                   std::optional<std::int64_t> borrows = {}) {
  auto out = object("kueue.x-k8s.io/v1beta2", "ClusterQueue", team);
  auto& spec = out.set("spec");
  spec.set("namespaceSelector").set("matchLabels").set("kubernetes.io/metadata.name", team);
  Json quota = Json::object({{"name", resource}, {"nominalQuota", gpus}});
  if (borrows) quota.set("borrowingLimit", *borrows);
  const Json offer = Json::object({{"name", flavor}, {"resources", Json::array({quota})}});
  spec.set("resourceGroups", Json::array({Json::object({{"coveredResources", Json::array({Json(resource)})},
                                                        {"flavors", Json::array({offer})}})}));
  return out;
}

/// One shared cluster: a cohort lends unused quota between teams, and each namespace also has a strict ResourceQuota.
std::vector<Json> centralized(const PresetVerb& verb) {
  std::vector<Json> out{object("kueue.x-k8s.io/v1beta2", "ResourceFlavor", verb.flavor),
                        object("kueue.x-k8s.io/v1beta2", "Cohort", "teams")};
  std::int64_t all = 0;
  for (const auto& [team, gpus] : verb.teams) all += gpus;
  for (const auto& [team, gpus] : verb.teams) {
    out.push_back(namespace_of(team));
    auto queue = cluster_queue(team, verb.flavor, verb.resource, gpus, std::min(gpus, all - gpus));
    queue.set("spec").set("cohortName", "teams");
    queue.set("spec").set("preemption").set("reclaimWithinCohort", "Any").set("withinClusterQueue", "LowerPriority");
    out.push_back(std::move(queue));
    out.push_back(local_queue(team));
    // As strict as the queue: the team's quota and its borrowing limit, also for pods outside the queues.
    auto quota = object("v1", "ResourceQuota", "gpus", team);
    quota.set("spec").set("hard").set("requests." + verb.resource, std::to_string(gpus + std::min(gpus, all - gpus)));
    out.push_back(std::move(quota));
  }
  return out;
}

Json node_class_ref(const std::string& name) {
  return Json::object({{"group", "karpenter.k8s.aws"}, {"kind", "EC2NodeClass"}, {"name", name}});
}

/// Each team has its own nodes, which run no pods of other teams, and administers them.
std::vector<Json> decentralized(const PresetVerb& verb) {
  std::vector<Json> out;
  for (const auto& [team, gpus] : verb.teams) {
    out.push_back(namespace_of(team));
    const Json taint = Json::object({{"key", kTeam}, {"value", team}, {"effect", "NoSchedule"}});
    auto flavor = object("kueue.x-k8s.io/v1beta2", "ResourceFlavor", team);
    flavor.set("spec").set("nodeLabels").set(kTeam, team);
    flavor.set("spec").set("nodeTaints", Json::array({taint}));
    flavor.set("spec").set("tolerations",
                           Json::array({Json::object(
                               {{"key", kTeam}, {"operator", "Equal"}, {"value", team}, {"effect", "NoSchedule"}})}));
    out.push_back(std::move(flavor));
    out.push_back(cluster_queue(team, team, verb.resource, gpus));
    out.push_back(local_queue(team));
    auto pool = object("karpenter.sh/v1", "NodePool", team);
    auto& template_spec = pool.set("spec").set("template");
    template_spec.set("metadata").set("labels").set(kTeam, team);
    auto& spec = template_spec.set("spec");
    spec.set("taints", Json::array({taint}));
    spec.set("requirements", Json::array({Json::object({{"key", "karpenter.k8s.aws/instance-gpu-count"},
                                                        {"operator", "Gt"},
                                                        {"values", Json::array({Json("0")})}})}));
    spec.set("nodeClassRef", node_class_ref("default"));
    pool.set("spec").set("limits").set(verb.resource, std::to_string(gpus));
    out.push_back(std::move(pool));
  }
  return out;
}

/// A tier of the preset: where it is in the order, and what it may launch.
struct Tier {
  const char *name, *capacity_type, *gpu;
  std::int64_t weight, gpus;
};
constexpr std::array<Tier, 3> kTiers{{{"gpu-tier1-g5-spot", "spot", "a10g", 100, 20},
                                      {"gpu-tier2-g4dn-spot", "spot", "t4", 50, 20},
                                      {"gpu-tier3-g5-ondemand", "on-demand", "a10g", 10, 10}}};

Json requirement(const char* key, const char* value) {
  return Json::object({{"key", key}, {"operator", "In"}, {"values", Json::array({Json(value)})}});
}

}  // namespace

std::vector<Json> tiered_pools(const std::string& node_class) {
  std::vector<Json> out;
  for (const Tier& tier : kTiers) {
    auto pool = object("karpenter.sh/v1", "NodePool", tier.name);
    auto& spec = pool.set("spec");
    auto& node = spec.set("template").set("spec");
    node.set("requirements", Json::array({requirement("karpenter.sh/capacity-type", tier.capacity_type),
                                          requirement("karpenter.k8s.aws/instance-gpu-name", tier.gpu),
                                          requirement("karpenter.k8s.aws/instance-category", "g")}));
    node.set("taints", Json::array({Json::object({{"key", kGpu}, {"value", "true"}, {"effect", "NoSchedule"}})}));
    node.set("nodeClassRef", node_class_ref(node_class));
    spec.set("weight", tier.weight);
    spec.set("limits").set(kGpu, std::to_string(tier.gpus));
    out.push_back(std::move(pool));
  }
  return out;
}

void print_manifests(const Context& context, const std::vector<Json>& objects) {
  if (context.format == Format::kJson) {
    Json items = Json::array();
    for (const auto& one : objects) items.push_back(one);
    print(context, Json::object({{"apiVersion", "v1"}, {"kind", "List"}}).set("items", std::move(items)));
    return;
  }
  for (const auto& one : objects) context.out << "---\n" << to_yaml(one);
}

Status run_verb(Context& context, const PresetVerb& verb) {
  print_manifests(context, verb.model == "centralized" ? centralized(verb) : decentralized(verb));
  return {};
}

}  // namespace qm::cli
