// NodeOverlays on new nodes.
#include "launch/overlays.hpp"

namespace qm::autoscaler {

Requirements overlay_labels(const NodeSide& node) {
  Requirements out = node.type.labels;
  for (const Labels* labels : {&node.pool.labels, &node.labels}) {
    for (const auto& [key, value] : *labels) {
      if (out.find(key) == nullptr) out.add(exactly(key, value));
    }
  }
  const auto set = [&](std::string_view key, const std::string& value) {
    if (!value.empty() && out.find(std::string(key)) == nullptr) out.add(exactly(std::string(key), value));
  };
  set(words::kInstanceType, node.type.name);
  set(words::kNodePool, node.pool.name);
  set(words::kCapacityType, std::string(node.capacity_type()));
  set(words::kZone, node.zone);
  return out;
}

Money overlaid_price(const State& state, const NodeSide& node, Money price) {
  if (state.overlays.empty()) return price;
  return overlaid_price(price, state.overlays, overlay_labels(node));
}

void add_overlaid_capacity(const State& state, const NodeSide& node, FreeCapacity& capacity) {
  if (state.overlays.empty()) return;
  for (const auto& [resource, amount] : overlaid_capacity(state.overlays, overlay_labels(node)))
    capacity.extended[resource] += amount;
}

}  // namespace qm::autoscaler
