// Adds, changes and removes nodes. When a node changes, its pods are removed from every count and
// added again with the node's new values.
#include "state.hpp"

#include <algorithm>

namespace qm::kube_rules {

void Key::join(NodeIndex node, const Labels& labels) {
  const auto label = labels.find(name);
  if (label == labels.end()) return;
  Domain& domain = domains.emplace(label->second, kNowhere);
  if (domain == kNowhere && !spare.empty()) {
    domain = spare.back();
    spare.pop_back();
  } else if (domain == kNowhere) {
    domain = static_cast<Domain>(members.size());
    members.emplace_back();
  }
  if (node >= of.size()) of.resize(node + 1, kNowhere);
  of[node] = domain;
  members[static_cast<std::size_t>(domain)].push_back(node);
  having.insert(node);
}

void Key::leave(NodeIndex node, const Labels& labels) {
  const Domain domain = domain_of(node);
  if (domain == kNowhere) return;
  auto& there = members[static_cast<std::size_t>(domain)];
  there.erase(std::ranges::find(there, node));
  if (there.empty()) {
    domains.erase(labels.at(name));
    spare.push_back(domain);
  }
  of[node] = kNowhere;
  having.erase(node);
}

void RuleBook::State::judge(Admission& admission, NodeIndex node) const {
  admission.nodes.put(node, admission.rule->admits(admission.pods->rules, slots[node].view));
}

void RuleBook::State::judge(Gauge& gauge, NodeIndex node) const {
  const auto value = gauge.preference->of(gauge.pods->rules, slots[node].view);
  gauge.telling.put(node, value != 0);
  if (node >= gauge.of.size() && value == 0) return;
  if (node >= gauge.of.size()) gauge.of.resize(slots.size());
  gauge.of[node] = value;
}

void RuleBook::State::judge(Counted& part, NodeIndex node) const {
  part.nodes.put(node,
                 std::ranges::all_of(part.admissions, [&](PartId a) { return admissions[a].nodes.contains(node); }) &&
                     std::ranges::all_of(part.keys, [&](PartId k) { return keys[k].having.contains(node); }));
}

void RuleBook::State::judge(Ask& ask, NodeIndex node) const {
  const auto& free = slots[node].free;
  ask.fits.put(node, std::ranges::all_of(ask.amounts, [&](const auto& amount) {
                 return amount.second <= (amount.first < free.size() ? free[amount.first] : 0);
               }));
}

void RuleBook::State::join(Balance& balance, NodeIndex node) {
  if (!counted[balance.counted].nodes.contains(node)) return;
  const Domain domain = keys[balance.key].domain_of(node);
  auto& level = balance.levels[balance.pods[domain]];
  level.nodes.insert(node);
  if (balance.members.add(domain, 1) > 1) return;
  ++level.domains;
  ++balance.domains;
}

void RuleBook::State::leave(Balance& balance, NodeIndex node) {
  if (!counted[balance.counted].nodes.contains(node)) return;
  const Domain domain = keys[balance.key].domain_of(node);
  const auto level = balance.levels.find(balance.pods[domain]);
  level->second.nodes.erase(node);
  if (balance.members.add(domain, -1) > 0) return;
  --balance.domains;
  if (--level->second.domains == 0) balance.levels.erase(level);
}

void RuleBook::State::attach(NodeIndex node) {
  NodeSlot& slot = slots[node];
  known.insert(node);
  keys.each([&](PartId, Key& key) { key.join(node, slot.view.labels); });
  admissions.each([&](PartId, Admission& admission) { judge(admission, node); });
  gauges.each([&](PartId, Gauge& gauge) { judge(gauge, node); });
  counted.each([&](PartId, Counted& part) { judge(part, node); });
  balances.each([&](PartId, Balance& balance) { join(balance, node); });
  tallies.each([&](PartId, Tally& tally) {
    const Domain domain = keys[tally.key].domain_of(node);
    tally.near.put(node, domain != kNowhere && tally.pods[domain] > 0);
  });
  claims.each([&](PartId, Claim& claim) {
    const Domain domain = keys[claim.key].domain_of(node);
    claim.forbidden.put(node, domain != kNowhere && claim.forbids[domain] > 0);
  });
  slot.free.assign(resources.size(), 0);
  for (const auto& [name, amount] : slot.view.allocatable) {
    const ResourceId id = resource_id(name);
    if (id >= slot.free.size()) slot.free.resize(id + 1);
    slot.free[id] = amount;
  }
  for (PodRecord* pod : slot.pods) count(*pod, 1);
  asks.each([&](PartId, Ask& ask) { judge(ask, node); });
}

void RuleBook::State::detach(NodeIndex node) {
  NodeSlot& slot = slots[node];
  for (PodRecord* pod : slot.pods) count(*pod, -1);
  known.erase(node);
  asks.each([&](PartId, Ask& ask) { ask.fits.erase(node); });
  claims.each([&](PartId, Claim& claim) { claim.forbidden.erase(node); });
  tallies.each([&](PartId, Tally& tally) { tally.near.erase(node); });
  balances.each([&](PartId, Balance& balance) { leave(balance, node); });
  counted.each([&](PartId, Counted& part) { part.nodes.erase(node); });
  admissions.each([&](PartId, Admission& admission) { admission.nodes.erase(node); });
  gauges.each([&](PartId, Gauge& gauge) { gauge.telling.erase(node); });
  keys.each([&](PartId, Key& key) { key.leave(node, slot.view.labels); });
}

NodeIndex RuleBook::State::slot_of(const NodeName& name) {
  if (const NodeIndex* found = by_name.find(name)) return *found;
  NodeIndex node = static_cast<NodeIndex>(slots.size());
  if (spare_slots_.empty()) {
    slots.emplace_back();
  } else {
    node = spare_slots_.back();
    spare_slots_.pop_back();
  }
  slots[node].view.name = name;
  by_name.emplace(name, node);
  return node;
}

void RuleBook::State::free_slot(NodeIndex node) {
  NodeSlot& slot = slots[node];
  if (slot.known || !slot.pods.empty()) return;
  by_name.erase(slot.view.name);
  slot = NodeSlot();
  spare_slots_.push_back(node);
}

void RuleBook::State::put_node(const NodeView& view) {
  const NodeIndex node = slot_of(view.name);
  NodeSlot& slot = slots[node];
  if (slot.known && slot.view == view) return;
  if (slot.known) detach(node);
  slot.known = true;
  slot.view = view;
  attach(node);
}

void RuleBook::State::drop_node(const NodeName& name) {
  const NodeIndex* found = by_name.find(name);
  if (found == nullptr || !slots[*found].known) return;
  const NodeIndex node = *found;
  detach(node);
  slots[node].known = false;
  free_slot(node);
}

}  // namespace qm::kube_rules
