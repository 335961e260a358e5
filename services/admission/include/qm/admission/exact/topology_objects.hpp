#pragma once
#include "qm/base/json.hpp"
#include "qm/topology/assign.hpp"

namespace qm::admission::exact {

// Kubernetes' and Kueue's objects as the topology sees them. Nothing fails: what cannot be read counts as not given.
//
// Units    quantities become canonical integers: cpu in thousandths, all else in units.
// Threads  one writer of `names`.

/// A map of quantities, or of canonical integers.
[[nodiscard]] topology::Requests topology_requests(topology::ResourceNames& names, const Json& quantities);
[[nodiscard]] topology::Node topology_node(topology::ResourceNames& names, const Json& node);
[[nodiscard]] topology::PodRules pod_rules(const Json& node_selector, const Json& tolerations,
                                           const Json& node_affinity);
/// A pod set's topologyRequest; nothing where it asks for no topology, though it may name its group.
[[nodiscard]] std::optional<topology::TopologyRequest> topology_request(const Json& request);
/// A topologyAssignment as the API has it, compressed, or with its domains listed one by one.
/// Source   Kueue, apis/kueue/v1beta2 (TopologyAssignment), pkg/util/tas.
[[nodiscard]] topology::Assignment topology_assignment(const Json& assignment);

/// The nodes of a workload that are known to have failed, as it has to be placed again: status.unhealthyNodes.
/// `keeps_single`: a workload that is one pod cannot move (gate SkipReassignmentForPodOwnedWorkloads).
[[nodiscard]] std::optional<topology::Replacement> replacement_of(const Json& workload, bool keeps_single);

}  // namespace qm::admission::exact
