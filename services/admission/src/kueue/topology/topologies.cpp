#include "qm/admission/kueue/topologies.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::admission::kueue {

using topology::DomainId;
using topology::kNoDomain;

LeafUses beyond(const LeafUses& now, const LeafUses& before) {
  LeafUses out;
  for (auto use : now) {
    for (const auto& had : before) {
      if (had.flavor == use.flavor && had.load.leaf == use.load.leaf) use.load.pods -= had.load.pods;
    }
    if (use.load.pods > 0) out.push_back(use);
  }
  return out;
}

void Topologies::add(Flavor flavor, topology::Flavor spec, std::span<const topology::Node> nodes) {
  flavors_.try_emplace(flavor, names_, std::move(spec), nodes, gates_);
}

void Topologies::take_outside(std::string_view node, const topology::Requests& usage) {
  for (auto& [flavor, held] : flavors_) {
    const auto leaf = held.nodes_of.leaf_of_node(node);
    if (leaf != kNoDomain) held.nodes_of.take_outside(leaf, usage);
  }
}

bool Topologies::has_levels(Flavor flavor, const topology::TopologyRequest& request) const {
  const auto found = flavors_.find(flavor);
  return found != flavors_.end() && topology::has_levels(found->second.nodes_of.tree(), request);
}

Placing Topologies::place(std::span<const NodeRequest> node_requests, Options options) {
  Placing out;
  std::vector<Flavor> done;
  for (const auto& first : node_requests) {
    if (std::ranges::find(done, first.flavor) != done.end()) continue;
    done.push_back(first.flavor);
    auto& held = flavors_.at(first.flavor);
    const auto& tree = held.nodes_of.tree();
    std::vector<topology::PodSetRequest> pod_sets;
    for (const auto& node_request : node_requests) {
      if (node_request.flavor == first.flavor) pod_sets.push_back(node_request.request);
    }
    topology::AssignOptions how{{}, options.empty, options.replacement};
    for (const auto& one : out.placed) {
      if (!shared(tree, flavors_.at(one.flavor).nodes_of.tree())) continue;
      for (const auto& domain : one.assignment.domains) {
        const std::vector<std::string> host{domain.values.back()};
        const auto leaf = tree.find_leaf(host);
        if (leaf != kNoDomain) topology::add(how.assumed[leaf], topology::usage_of(one.each, domain.count));
      }
    }
    for (auto& result : topology::assign(held.search, pod_sets, std::move(how))) {
      const auto node_request = std::ranges::find_if(node_requests, [&](const NodeRequest& w) {
        return w.flavor == first.flavor && w.request.name == result.pod_set;
      });
      if (!result.assignment) {
        out.failed = node_request->set;
        out.reason = std::move(result.reason);
        return out;
      }
      out.placed.push_back(
          {node_request->set, node_request->flavor, std::move(*result.assignment), node_request->request.per_pod});
    }
  }
  return out;
}

void Topologies::add_uses(LeafUses& to, Flavor flavor, const topology::Assignment& assignment,
                          const topology::Requests& each) const {
  const auto own = flavors_.find(flavor);
  if (own == flavors_.end()) return;
  const auto& own_tree = own->second.nodes_of.tree();
  for (const auto& domain : assignment.domains) {
    if (domain.values.empty()) continue;
    to.push_back({flavor, {own_tree.find_leaf(domain.values), domain.count, each}, false});
    for (const auto& [other, held] : flavors_) {
      const auto& tree = held.nodes_of.tree();
      if (other == flavor || !shared(own_tree, tree)) continue;
      const std::vector<std::string> host{domain.values.back()};
      if (const auto leaf = tree.find_leaf(host); leaf != kNoDomain)
        to.push_back({other, {leaf, domain.count, each}, true});
    }
  }
}

LeafUses Topologies::uses_of(std::span<const Placed> placed) const {
  LeafUses out;
  for (const auto& one : placed) add_uses(out, one.flavor, one.assignment, one.each);
  return out;
}

bool Topologies::fits(const LeafUses& uses) {
  if (std::ranges::any_of(uses, [](const LeafUse& use) { return use.load.leaf == kNoDomain; })) return false;
  take(uses);
  const bool out = std::ranges::all_of(uses, [&](const LeafUse& use) {
    const auto free = flavors_.at(use.flavor).nodes_of.free(use.load.leaf);
    return std::ranges::all_of(topology::usage_of(use.load.per_pod, use.load.pods), [&](const topology::Amount& asked) {
      const auto r = static_cast<std::size_t>(asked.resource);
      return asked.amount <= 0 || (r < free.size() && free[r] >= 0);
    });
  });
  give_back(uses);
  return out;
}

void Topologies::take(const LeafUses& uses) {
  for (const auto& [flavor, load, of_another] : uses) {
    if (load.leaf == kNoDomain) continue;
    flavors_.at(flavor).nodes_of.take(load.leaf, topology::usage_of(load.per_pod, load.pods));
  }
}

void Topologies::give_back(const LeafUses& uses) {
  for (const auto& [flavor, load, of_another] : uses) {
    if (load.leaf == kNoDomain) continue;
    flavors_.at(flavor).nodes_of.give_back(load.leaf, topology::usage_of(load.per_pod, load.pods));
  }
}

std::map<std::string, topology::Requests> Topologies::placed_on(Flavor flavor) const {
  std::map<std::string, topology::Requests> out;
  const auto found = flavors_.find(flavor);
  if (found == flavors_.end()) return out;
  const auto& nodes = found->second.nodes_of;
  for (DomainId leaf = nodes.tree().leaves().begin; leaf < nodes.tree().leaves().end; ++leaf) {
    const auto free = nodes.free(leaf), all = nodes.free_when_empty(leaf);
    const auto name = nodes.tree().leaves_are_hosts() ? nodes.tree().value(leaf)
                                                      : fmt::format("{}", fmt::join(nodes.tree().values(leaf), ","));
    for (std::size_t r = 0; r < free.size(); ++r) {
      if (all[r] != free[r]) {
        topology::add(out[name], {{static_cast<topology::ResourceId>(r), all[r] - free[r]}});
      }
    }
  }
  return out;
}

}  // namespace qm::admission::kueue
