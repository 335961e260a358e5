#pragma once
#include "qm/placement/asked.hpp"
#include "qm/placement/model.hpp"
#include "qm/placement/rules/pod_rules.hpp"

namespace qm::placement {

/// What the claims of a pod come to now.
///
/// A claim that is bound is where its volume is. One whose class waits for its first pod may go wherever the class makes volumes, until
/// a node is chosen; any other has to be bound first. One that is made for the pod itself has to be there too; before there are pods, it goes
/// where its class makes volumes.
struct Mounts {
  std::vector<rules::VolumeReach> reach;
  std::string blocked;               ///< why no node will do; empty = some may
  std::string one_node;              ///< a claim whose volume is used on one node at a time
  std::vector<std::string> to_make;  ///< claims whose volumes are made where the pod goes
};

/// `own`: claims that pods have each for itself; none as long as there are no pods. Nothing while storage was never told of, or where the
/// template names no namespace.
[[nodiscard]] Mounts mounts_of(const Tables& tables, const rules::PodTemplate& like,
                               const std::vector<PodClaim>& own = {});
/// Those that Kubernetes makes for the pod, by its name.
[[nodiscard]] std::vector<PodClaim> own_claims_of(const PodFacts& pod, const rules::PodTemplate& like);
/// Whether the node is in reach of all of them.
[[nodiscard]] bool reaches(const Mounts& mounts, const NodeName& node, const NodeFacts& facts);

/// A volume as its driver attaches it: once, however many pods of the node use it.
struct Attached {
  std::string driver, volume;
  friend auto operator<=>(const Attached&, const Attached&) = default;
};
/// None where no driver of CSI attaches it, or nobody knows which.
[[nodiscard]] std::optional<Attached> attached_by(const Tables& tables, const ClaimUse& use);
/// The class that the claim names, or the default one; null where there is none.
[[nodiscard]] const StorageClass* class_of(const Tables& tables, const std::optional<std::string>& name);

}  // namespace qm::placement
