// The scheduling rules of a pod template in addition to its shape: the fields that a scheduler reads.
#include "pod.hpp"

#include <algorithm>
#include <array>

namespace qm::config {
namespace {

/// Labels that controllers add to each Job, or to each pod, to distinguish them.
constexpr std::array<std::string_view, 7> kOfControllers{"apps.kubernetes.io/pod-index",
                                                         "batch.kubernetes.io/controller-uid",
                                                         "batch.kubernetes.io/job-completion-index",
                                                         "batch.kubernetes.io/job-name",
                                                         "controller-uid",
                                                         "job-name",
                                                         "statefulset.kubernetes.io/pod-name"};

bool is_given(const Json& value) { return value.size() > 0; }

/// Copies containers with only their host ports.
Json host_ports(const Json& spec, std::string_view list, bool sidecars_only) {
  const bool host_network = spec["hostNetwork"].boolean();
  Json out = Json::array();
  for (const Json& container : spec[list].items()) {
    if (sidecars_only && container["restartPolicy"].string() != "Always") continue;
    Json ports = Json::array();
    for (const Json& port : container["ports"].items()) {
      if (host_network || port["hostPort"].integer(0) != 0) ports.push_back(port);
    }
    if (!is_given(ports)) continue;
    Json pruned = Json::object({{"ports", std::move(ports)}});
    if (sidecars_only) pruned.set("restartPolicy", "Always");
    out.push_back(std::move(pruned));
  }
  return out;
}

}  // namespace

std::string rules_of_template(const Json& pod_template, bool node_affinity_is_in_shape) {
  const Json& spec = pod_template["spec"];
  Json kept = Json::object(), affinity = Json::object();
  for (const auto& [name, value] : spec["affinity"].members()) {
    if (is_given(value) && !(node_affinity_is_in_shape && name == "nodeAffinity")) affinity.set(name, value);
  }
  if (is_given(affinity)) kept.set("affinity", std::move(affinity));
  if (is_given(spec["topologySpreadConstraints"]))
    kept.set("topologySpreadConstraints", spec["topologySpreadConstraints"]);
  for (const auto& [list, sidecars_only] : {std::pair("containers", false), std::pair("initContainers", true)}) {
    auto ports = host_ports(spec, list, sidecars_only);
    if (!is_given(ports)) continue;
    kept.set(list, std::move(ports));
    if (spec["hostNetwork"].boolean()) kept.set("hostNetwork", true);
  }
  Json claims = Json::array();
  for (const Json& volume : spec["volumes"].items()) {
    const Json& claim = volume["persistentVolumeClaim"]["claimName"];
    if (!claim.string().empty())
      claims.push_back(Json::object({{"persistentVolumeClaim", Json::object({{"claimName", claim}})}}));
    const Json& own = volume["ephemeral"]["volumeClaimTemplate"];
    if (own.is_null()) continue;
    Json asked = Json::object();
    if (const Json& made_by = own["spec"]["storageClassName"]; !made_by.is_null())
      asked.set("storageClassName", made_by);
    Json made = Json::object({{"volumeClaimTemplate", Json::object({{"spec", std::move(asked)}})}});
    claims.push_back(Json::object({{"name", volume["name"]}, {"ephemeral", std::move(made)}}));
  }
  if (is_given(claims)) kept.set("volumes", std::move(claims));
  Json labels = pod_template["metadata"]["labels"];
  // Labels alone matter only to other pods' rules. These cannot know the labels that controllers add, and with them
  // equal jobs would have different rules.
  if (!is_given(kept)) {
    for (const auto name : kOfControllers) labels.erase(name);
    if (!is_given(labels)) return {};
  }
  // The shape has these too, but spread is computed over the nodes that they select.
  for (const char* name : {"nodeSelector", "tolerations"}) {
    if (is_given(spec[name])) kept.set(name, spec[name]);
  }
  Json out = Json::object({{"spec", std::move(kept)}});
  if (is_given(labels)) out.set("metadata", Json::object({{"labels", labels}}));
  return out.dump();
}

}  // namespace qm::config
