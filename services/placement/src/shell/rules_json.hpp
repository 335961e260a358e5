#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/placement/rules/pod_rules.hpp"

namespace qm::placement {

/// What a Pod says about where it may run.
///
/// Reads    metadata.namespace and labels; of the spec nodeSelector, affinity, tolerations, topologySpreadConstraints,
///          host ports, volumes that are claimed, and requests. Fields that speak of none of these may hold anything.
/// Fails    kInvalid names the field ("spec.affinity.podAffinity....[0].topologyKey").
[[nodiscard]] Result<rules::PodTemplate> template_from_pod(const Json& pod);

/// PodSet::rules of another service's, in the engine's own text; empty where there are none, or where they are not understood, which is
/// logged.
[[nodiscard]] std::string rules_text(const Namespace& ns, const std::string& rules);

/// A node as the rules see it. Fails: kInvalid names the resource whose amount is no quantity.
[[nodiscard]] Result<rules::NodeView> view_of_node(const Json& node);

/// From which nodes a PersistentVolume can be reached: its node affinity, and its labels of zone and region, which count
/// for nodes that are in a zone or region at all.
[[nodiscard]] Result<std::vector<rules::VolumeReach>> reach_of_volume(const Json& volume);

/// Where a StorageClass makes volumes; without allowedTopologies there is no bound.
[[nodiscard]] Result<std::vector<rules::VolumeReach>> reach_of_class(const Json& storage_class);

}  // namespace qm::placement
