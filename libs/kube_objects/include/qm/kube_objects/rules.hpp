#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/kube_rules/pod_rules.hpp"

namespace qm::kube_objects {

/// Reads from a Pod where it may run.
///
/// Reads    metadata.namespace and labels; of the spec nodeSelector, affinity, tolerations,
///          topologySpreadConstraints, host ports, volumes that are claimed, and requests, which are those
///          of config::requests_from_pod. Other fields are not checked.
/// Fails    kInvalid names the field ("spec.affinity.podAffinity....[0].topologyKey").
[[nodiscard]] Result<kube_rules::PodTemplate> template_from_pod(const Json& pod);

/// The rules of a pod as text, without its requests, node selector and tolerations, which its shape has. Empty if nothing
/// else binds it: labels alone exclude no node.
///
/// Fails    as template_from_pod.
[[nodiscard]] Result<std::string> rules_text_of_pod(const Json& pod);

/// Converts PodSet::rules of another service to the engine's text. Empty if there are no rules, or
/// if they cannot be parsed, which is logged.
[[nodiscard]] std::string rules_text(const Namespace& ns, const std::string& rules);

/// A node as the rules see it. Fails: kInvalid names the resource whose amount is not a valid quantity.
[[nodiscard]] Result<kube_rules::NodeView> view_of_node(const Json& node);

/// The nodes from which a PersistentVolume is reachable: by its node affinity, and by its labels of
/// zone and region, which apply only to nodes that are in a zone or region.
[[nodiscard]] Result<std::vector<kube_rules::VolumeReach>> reach_of_volume(const Json& volume);

/// Where a StorageClass provisions volumes; without allowedTopologies it is not limited.
[[nodiscard]] Result<std::vector<kube_rules::VolumeReach>> reach_of_class(const Json& storage_class);

}  // namespace qm::kube_objects
