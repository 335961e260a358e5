#include "scheduler/topology/topology_nodes.hpp"

#include "qm/admission/kueue/node_affinity.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::admission {
namespace {

topology::Requests interned(topology::ResourceNames& names, const NodeAmounts& amounts) {
  topology::Requests out;
  for (const auto& [resource, amount] : amounts) topology::add(out, {{names.intern(resource), amount}});
  return out;
}

/// The request in the terms of the rules. One layer of slices, as the annotations have it.
std::optional<topology::TopologyRequest> request_of(const PodSetTopology& from) {
  topology::TopologyRequest out;
  if (!from.required.empty()) out.required = from.required;
  if (!from.preferred.empty()) out.preferred = from.preferred;
  out.unconstrained = from.unconstrained;
  if (!from.slice.empty() && from.slice_size > 0) out.slices.push_back({from.slice, from.slice_size});
  if (!out.required && !out.preferred && !out.unconstrained && out.slices.empty()) return std::nullopt;
  return out;
}

/// The nodes on which the pods may run. The shape has a node affinity that only names GPU models.
kube_rules::NodeConstraints rules_of(const PodSet& set) {
  auto out = kueue::node_affinity_of(set.rules);
  out.node_selector = set.shape.node_selector;
  out.tolerations = set.shape.tolerations;
  if (set.shape.gpu.models.empty() || out.required) return out;
  kube_rules::Requirement models{std::string(words::kGpuProduct), kube_rules::Requirement::Op::kIn,
                                 set.shape.gpu.models};
  out.required = {{{std::move(models)}, {}}};
  return out;
}

}  // namespace

void TopologyNodes::build(const std::map<FlavorName, Flavor>& flavors, kueue::Names& names) {
  const auto names_one = [](const auto& row) { return !row.second.topology.empty(); };
  if (topologies_ == nullptr || std::ranges::none_of(flavors, names_one)) return;
  rules_ = std::make_shared<kueue::Topologies>();
  std::vector<topology::Node> nodes;
  for (const auto& [name, node] : *nodes_) {
    nodes.push_back({name.value(), node.labels, node.taints, interned(rules_->names(), node.allocatable), node.ready,
                     node.schedulable});
  }
  for (const auto& [name, flavor] : flavors) {
    const auto topology = topologies_->find(flavor.topology);
    if (topology == topologies_->end()) continue;
    flavors_.push_back(names.of(name.value()));
    rules_->add(flavors_.back(), {flavor.topology, topology->second.levels, flavor.node_labels, flavor.tolerations},
                nodes);
  }
  for (const auto& [name, node] : *nodes_) rules_->take_outside(name.value(), interned(rules_->names(), node.used));
  topologies_ = nullptr;
  nodes_ = nullptr;
}

bool TopologyNodes::covers(const kueue::QueueRules& rules) const {
  if (!used() || rules.groups.empty()) return false;
  return std::ranges::all_of(rules.groups, [&](const auto& group) {
    return std::ranges::all_of(group.options, [&](const auto& option) { return rules_->has(option.flavor); });
  });
}

topology::Requests TopologyNodes::requests_of(const PodShape& shape) const {
  NodeAmounts out = shape.extended;
  out["cpu"] += shape.cpu_milli;
  out["memory"] += shape.memory_bytes;
  out[std::string(words::kGpuResource)] += shape.gpu.whole;
  out[std::string(words::kGpuMilliResource)] += shape.gpu.milli;
  if (shape.gpu.mig_count > 0) out[std::string(words::kMigPrefix) + shape.gpu.mig_profile] += shape.gpu.mig_count;
  std::erase_if(out, [](const auto& one) { return one.second == 0; });
  return interned(rules_->names(), out);
}

void TopologyNodes::add_request(const PodSet& set, kueue::PodSet& to) const {
  if (!used()) return;
  topology::PodSetRequest request;
  request.name = set.name;
  request.per_pod = requests_of(set.shape);
  request.topology = request_of(set.topology);
  if (!set.topology.group.empty()) request.group = set.topology.group;
  request.rules = rules_of(set);
  if (request.topology) {
    for (const auto& [resource, amount] : to.each) to.node_resources.push_back(resource);
  }
  to.nodes = std::make_shared<const topology::PodSetRequest>(std::move(request));
}

std::optional<kueue::Refusal> TopologyNodes::refusal(const kueue::PodSet& set, const Flavor& flavor,
                                                     kueue::Flavor id) const {
  using Why = kueue::Refusal::Why;
  if (!used() || !set.has_topology() || rules_->has(id)) return std::nullopt;
  return kueue::Refusal{id, flavor.topology.empty() ? Why::kNoTopology : Why::kUnknownTopology, {}};
}

std::string TopologyNodes::text_of(const PodSet& set) const {
  if (!used()) return {};
  const auto& t = set.topology;
  return fmt::format("^{}|{}|{}|{}|{}|{}|{}|{}", t.required, t.preferred, t.unconstrained, t.slice, t.slice_size,
                     t.group, fmt::join(set.shape.gpu.models, ","), set.rules);
}

kueue::LeafUses TopologyNodes::uses_of(const Spec& spec, const Flavors& chosen, const TopologyAssignments& nodes,
                                       const kueue::Names& names) const {
  kueue::LeafUses out;
  if (!used()) return out;
  for (const auto& set : spec.pod_sets) {
    const auto assigned = nodes.find(set.name);
    const auto own = chosen.find(set.name);
    if (assigned == nodes.end() || own == chosen.end()) continue;
    const auto flavor = std::ranges::find_if(flavors_, [&](kueue::Flavor one) {
      return std::ranges::any_of(own->second, [&](const auto& use) { return use.second.value() == names[one]; });
    });
    if (flavor != flavors_.end()) rules_->add_uses(out, *flavor, assigned->second, requests_of(set.shape));
  }
  return out;
}

TopologyAssignments TopologyNodes::assignments_of(const std::vector<kueue::PodSet>& sets,
                                                  const std::vector<kueue::Placed>& placed) {
  TopologyAssignments out;
  for (const auto& one : placed) out[sets[one.set].name] = one.assignment;
  return out;
}

TopologyNodes::UsageOfNodes TopologyNodes::usage() const {
  UsageOfNodes out;
  for (const auto flavor : flavors_) {
    for (const auto& [domain, amounts] : rules_->placed_on(flavor)) {
      for (const auto& [resource, amount] : amounts) {
        if (amount != 0) out[flavor][domain][rules_->names().name(resource)] = amount;
      }
    }
  }
  return out;
}

}  // namespace qm::admission
