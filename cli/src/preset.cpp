// Presets: objects for a way to run a fleet, to be applied unchanged or edited first.
#include "commands.hpp"
#include "print.hpp"
#include "qm/base/json.hpp"
#include "yaml.hpp"

#include <algorithm>
#include <optional>
#include <ostream>

namespace qm::cli {
namespace {

constexpr const char* kTeam = "quartermaster.dev/team";

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
    spec.set("nodeClassRef",
             Json::object({{"group", "karpenter.k8s.aws"}, {"kind", "EC2NodeClass"}, {"name", "default"}}));
    pool.set("spec").set("limits").set(verb.resource, std::to_string(gpus));
    out.push_back(std::move(pool));
  }
  return out;
}

}  // namespace

Status run_verb(Context& context, const PresetVerb& verb) {
  const auto objects = verb.model == "centralized" ? centralized(verb) : decentralized(verb);
  if (context.format == Format::kJson) {
    Json items = Json::array();
    for (const auto& one : objects) items.push_back(one);
    print(context, Json::object({{"apiVersion", "v1"}, {"kind", "List"}}).set("items", std::move(items)));
    return {};
  }
  for (const auto& one : objects) context.out << "---\n" << to_yaml(one);
  return {};
}

}  // namespace qm::cli
