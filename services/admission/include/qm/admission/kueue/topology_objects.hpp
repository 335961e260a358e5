#pragma once
#include "qm/base/json.hpp"
#include "qm/topology/assign.hpp"

namespace qm::admission::kueue {

// Objects of Kubernetes and Kueue as input of the topology. Never fails: a field that cannot be parsed counts as
// missing.
//
// Units    quantities become canonical integers: cpu in thousandths, everything else in units.
// Threads  one writer of `names`.

/// A map of quantities, or of canonical integers.
[[nodiscard]] topology::Requests topology_requests(topology::ResourceNames& names, const Json& quantities);
[[nodiscard]] topology::Node topology_node(topology::ResourceNames& names, const Json& node);
[[nodiscard]] kube_rules::NodeConstraints node_constraints(const Json& node_selector, const Json& tolerations,
                                                           const Json& node_affinity);
/// The topologyRequest of a pod set; empty if it requests no topology, even if it names its group.
[[nodiscard]] std::optional<topology::TopologyRequest> topology_request(const Json& request);
/// A topologyAssignment as in the API, compressed, or with its domains listed one by one.
/// Source   Kueue, apis/kueue/v1beta2 (TopologyAssignment), pkg/util/tas.
[[nodiscard]] topology::Assignment topology_assignment(const Json& assignment);

/// The known failed nodes of a workload that has to be placed again: status.unhealthyNodes. `keeps_single`: a
/// workload of one pod cannot move (gate SkipReassignmentForPodOwnedWorkloads).
[[nodiscard]] std::optional<topology::Replacement> replacement_of(const Json& workload, bool keeps_single);

}  // namespace qm::admission::kueue
