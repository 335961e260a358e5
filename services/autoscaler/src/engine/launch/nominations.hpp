#pragma once
#include "facts.hpp"

#include <set>
#include <vector>

namespace qm::autoscaler {

/// The places of promised plans on nodes that are initialized and stay, in the order of the demand.
///
/// Gangs    a place has the index of a pod set, and the sets of a gang change as its pods are bound. A gang has
///          nominations only while it has one set.
/// Cost     the places of all plans.
[[nodiscard]] std::vector<Nomination> nominations_of(const Tables& tables, const Facts& facts);

/// Nodes with the taint kNominatingTaint that are ready for pods, apart from it: of claims, once they are initialized;
/// also those without a claim, whose taint no other controller removes.
///
/// Cost     the claims, and the taints of all nodes.
[[nodiscard]] std::set<NodeName> held_nodes_of(const Tables& tables, const Facts& facts);

}  // namespace qm::autoscaler
