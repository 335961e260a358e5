#pragma once
#include "qm/kube_rules/pod_rules.hpp"
#include "qm/placement/model.hpp"
#include "qm/placement/placement_request.hpp"

namespace qm::placement {

/// Node constraints of the claims of a pod.
///
/// A bound claim requires the nodes of its volume. An unbound claim with WaitForFirstConsumer allows all
/// nodes where its class can provision, until a node is selected. Any other claim must be bound first. A
/// claim of the pod itself must exist; before there are pods, it allows the nodes where its class can
/// provision.
struct Mounts {
  std::vector<rules::VolumeReach> reach;
  std::string blocked;               ///< why no node fits; empty = some may
  std::string one_node;              ///< a claim whose volume is used on one node at a time
  std::vector<std::string> to_make;  ///< claims whose volumes are provisioned on the pod's node
};

/// `own`: claims of single pods; empty while there are no pods. The result is empty if storage was never
/// listed, or the template has no namespace.
[[nodiscard]] Mounts mounts_of(const Tables& tables, const rules::PodTemplate& like,
                               const std::vector<PodClaim>& own = {});
/// Claims that Kubernetes creates for the pod, by its name.
[[nodiscard]] std::vector<PodClaim> own_claims_of(const PodFacts& pod, const rules::PodTemplate& like);
/// Whether the node can use all volumes.
[[nodiscard]] bool reaches(const Mounts& mounts, const NodeName& node, const NodeFacts& facts);

/// An attached volume: it counts once, however many pods of the node use it.
struct Attached {
  std::string driver, volume;
  friend auto operator<=>(const Attached&, const Attached&) = default;
};
/// None if no CSI driver attaches it, or the driver is unknown.
[[nodiscard]] std::optional<Attached> attached_by(const Tables& tables, const ClaimUse& use);
/// The class of the claim, or the default class; null if it does not exist.
[[nodiscard]] const StorageClass* class_of(const Tables& tables, const std::optional<std::string>& name);

}  // namespace qm::placement
