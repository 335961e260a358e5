#pragma once
#include "launch/new_nodes.hpp"
#include "state.hpp"

#include <map>
#include <string>

namespace qm::autoscaler {

/// The labels of a new node that overlays compare: of its type, its offering and its NodePool.
[[nodiscard]] Requirements overlay_labels(const NodeSide& node);
/// The price of the node with NodeOverlays.
[[nodiscard]] Money overlaid_price(const State& state, const NodeSide& node, Money price);
/// Adds the extended resources of NodeOverlays to the capacity of the node.
void add_overlaid_capacity(const State& state, const NodeSide& node, FreeCapacity& capacity);

}  // namespace qm::autoscaler
