#pragma once
#include "qm/model/pod_owner.hpp"
#include "qm/placement/model.hpp"

namespace qm::placement {

/// Whether the pod is one of the workload's pods. Placement maps pods to workloads by this function and by no other.
///
/// Rules    those of qm::ownership_of(). An annotation does not override a controller that is a workload
///          itself. A workload that admission has not published yet owns no pods: kUnrelated.
/// Cost     two look-ups.
[[nodiscard]] PodOwnership ownership_of(const Tables& tables, const PodFacts& pod, const WorkloadUid& workload);

/// The workloads that the pod may belong to: the one that it names, and its controller. Without duplicates.
[[nodiscard]] std::vector<WorkloadUid> named_by(const PodFacts& pod);

/// Why the named workload does not own the pod; kOwned and kUnrelated if nothing is wrong.
[[nodiscard]] PodOwnership refusal_of(const Tables& tables, const PodFacts& pod);

}  // namespace qm::placement
