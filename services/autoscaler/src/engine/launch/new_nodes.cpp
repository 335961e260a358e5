// Labels and capacity of nodes that do not exist yet.
#include "launch/new_nodes.hpp"

#include "launch/overlays.hpp"
#include "qm/autoscaler/requirements/keys.hpp"

#include <algorithm>
#include <set>

namespace qm::autoscaler {
namespace {

/// The label of the node; none if it is not known before the launch.
std::optional<Requirement> label_of(const NodeSide& node, const std::string& key) {
  if (key == words::kZone) return node.zone.empty() ? std::nullopt : std::optional(exactly(key, node.zone));
  if (key == kRegion) {
    const auto region = region_of(node.zone);
    return region.empty() ? std::nullopt : std::optional(exactly(key, region));
  }
  if (key == words::kCapacityType) return exactly(key, std::string(node.capacity_type()));
  if (key == words::kNodePool) return exactly(key, node.pool.name);
  for (const Labels* labels : {&node.labels, &node.pool.labels}) {
    if (const auto own = labels->find(key); own != labels->end()) return exactly(key, own->second);
  }
  if (const Requirement* of_type = node.type.labels.find(key); of_type != nullptr) return *of_type;
  if (key == words::kInstanceType) return exactly(key, node.type.name);
  if (key == words::kGpuProduct && node.type.gpus > 0) return exactly(key, node.type.gpu_product);
  return absent(key);
}

bool satisfies(const NodeSide& node, const Requirements& pod) {
  Requirements labels;
  for (const auto& [key, requirement] : pod.by_key()) {
    const auto label = label_of(node, key);
    if (label && label->op() != Operator::kDoesNotExist) labels.add(*label);
    if (label) continue;
    // Every node has it; which value is not known.
    if (requirement.op() != Operator::kExists || requirement.gte || requirement.lte) return false;
    labels.add(requirement);
  }
  return !labels.conflict(pod, Undefined::kRefused);
}

/// The requirements of the pods on keys of the pool's rules, with the first term of their affinity that the rules allow.
std::optional<Requirements> asked_of(const PodNeeds& needs, const Requirements& rules) {
  if (needs.impossible || rules.disjoint_key(needs.selector)) return std::nullopt;
  Requirements out = needs.selector;
  if (needs.terms.empty()) return out;
  for (const auto& term : needs.terms) {
    if (rules.disjoint_key(term)) continue;
    out.add(term);
    return out;
  }
  return std::nullopt;
}

Requirements rules_of(const Pool& pool) {
  Requirements out;
  for (const auto& rule : pool.rules) out.add(rule);
  return out;
}

}  // namespace

NodeSide NewNodes::side_of(const Claim& claim) const {
  return {*tables_.pools.find(claim.pool), claim.labels, state_.catalog.at(claim.type), claim.zone, claim.market,
          !claim.reservation.empty()};
}

bool NewNodes::accepts(const PodSet& set, const NodeSide& node) const {
  const PodShape& shape = set.shape;
  if (shape.gpu.mig_count > 0) return false;  // a new instance has whole devices
  if (untolerated(node.pool.taints, shape.tolerations) != nullptr) return false;
  if (!shape.gpu.models.empty() &&
      !std::ranges::any_of(shape.gpu.models, [&](const auto& model) { return model == node.type.gpu_product; }))
    return false;
  const PodNeeds& pod = needs(set);
  if (pod.impossible || !satisfies(node, pod.selector)) return false;
  return pod.terms.empty() || std::ranges::any_of(pod.terms, [&](const auto& term) { return satisfies(node, term); });
}

FreeCapacity NewNodes::empty(const NodeSide& node) const {
  FreeCapacity out(node.type);
  for (const auto& [resource, amount] : node.pool.node_resources) out.extended[resource] = amount;
  for (const auto& [name, set] : tables_.daemon_sets) {
    if (accepts(set, node)) out.occupy(set.shape, needs(set));
  }
  add_overlaid_capacity(state_, node, out);
  return out;
}

std::optional<Labels> NewNodes::chosen_labels(const Pool& pool, const std::vector<PodSet>& sets) const {
  Requirements rules = rules_of(pool);
  for (const PodSet& set : sets) {
    if (set.count == 0) continue;
    const auto asked = asked_of(needs(set), rules);
    if (!asked) return std::nullopt;
    for (const auto& rule : pool.rules) {
      if (const Requirement* wanted = asked->find(rule.key); wanted != nullptr) rules.add(*wanted);
    }
  }
  Labels out;
  for (const auto& [key, rule] : rules.by_key()) {
    if (const auto value = lowest(rule)) out[key] = *value;
  }
  return out;
}

std::string NewNodes::contested_label(const Pool& pool, const std::vector<PodSet>& sets) const {
  for (const auto& rule : pool.rules) {
    std::set<std::string> values;
    for (const PodSet& set : sets) {
      const auto asked = set.shape.node_selector.find(rule.key);
      if (set.count > 0 && asked != set.shape.node_selector.end()) values.insert(asked->second);
    }
    const bool allowed = std::ranges::all_of(values, [&](const auto& value) { return rule.has(value); });
    if (values.size() > 1 && allowed) return rule.key;
  }
  return {};
}

std::vector<std::string> NewNodes::named_zones(const std::vector<PodSet>& sets) const {
  std::vector<std::string> out;
  const auto add = [&](const Requirements& requirements) {
    const Requirement* zone = requirements.find(std::string(words::kZone));
    if (zone == nullptr || zone->complement) return;
    for (const auto& name : zone->values) {
      if (std::ranges::find(out, name) == out.end()) out.push_back(name);
    }
  };
  for (const PodSet& set : sets) {
    if (set.count == 0) continue;
    add(needs(set).selector);
    for (const auto& term : needs(set).terms) add(term);
  }
  return out;
}

}  // namespace qm::autoscaler
