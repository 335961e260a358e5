// Adds, changes and removes pods, and updates the counts that include them.
#include "state.hpp"

#include <algorithm>

namespace qm::kube_rules {

bool Term::matches(const Namespace& ns, const Labels& ns_labels, const Labels& labels) const {
  if (!pods || !pods->matches(labels)) return false;
  return std::ranges::find(namespaces, ns.value()) != namespaces.end() ||
         (namespace_selector && namespace_selector->matches(ns_labels));
}

const Labels& RuleBook::State::labels_of(const Namespace& ns) const {
  static const Labels none;
  const auto found = namespaces.find(ns);
  return found == namespaces.end() ? none : found->second;
}

bool RuleBook::State::matches(const Selector& selector, const LabelSet& labels) const {
  const Labels& ns_labels = labels_of(labels.ns);
  return std::ranges::all_of(selector.terms,
                             [&](const Term& term) { return term.matches(labels.ns, ns_labels, labels.labels); });
}

void RuleBook::State::count(Tally& tally, NodeIndex node, std::int64_t by) {
  const Key& key = keys[tally.key];
  const Domain domain = key.domain_of(node);
  if (domain == kNowhere) return;
  tally.total += by;
  const auto now = tally.pods.add(domain, by);
  if ((now > 0) == (now - by > 0)) return;
  for (const NodeIndex member : key.members[static_cast<std::size_t>(domain)]) tally.near.put(member, now > 0);
}

void RuleBook::State::count(Claim& claim, NodeIndex node, std::int64_t forbids, std::int64_t weight) {
  const Key& key = keys[claim.key];
  const Domain domain = key.domain_of(node);
  if (domain == kNowhere) return;
  const auto weighs = claim.weights.add(domain, weight);
  claim.telling += (weighs != 0 ? 1 : 0) - (weighs - weight != 0 ? 1 : 0);
  const auto now = claim.forbids.add(domain, forbids);
  if ((now > 0) == (now - forbids > 0)) return;
  for (const NodeIndex member : key.members[static_cast<std::size_t>(domain)]) claim.forbidden.put(member, now > 0);
}

void RuleBook::State::count(Balance& balance, NodeIndex node, std::int64_t by) {
  const NodeSet& counts = counted[balance.counted].nodes;
  if (by == 0 || !counts.contains(node)) return;
  const Key& key = keys[balance.key];
  const Domain domain = key.domain_of(node);
  const auto now = balance.pods.add(domain, by);
  const auto from = balance.levels.find(now - by);
  auto& to = balance.levels[now];
  for (const NodeIndex member : key.members[static_cast<std::size_t>(domain)]) {
    if (!counts.contains(member)) continue;
    from->second.nodes.erase(member);
    to.nodes.insert(member);
  }
  ++to.domains;
  if (--from->second.domains == 0) balance.levels.erase(from);
}

void RuleBook::State::count(PartId selector, NodeIndex node, const LabelSet::Count& by) {
  const Selector& s = selectors[selector];
  for (const PartId id : s.tallies) count(tallies[id], node, by.all);
  for (const PartId id : s.balances) count(balances[id], node, by.staying);
}

void RuleBook::State::count_ports(const PodRules& rules, NodeIndex node, std::int64_t sign) {
  for (const HostPort& port : rules.ports) {
    const std::pair number(port.protocol, port.port);
    PortUsers& users = ports[number][port.ip];
    const auto now = users.pods[node] += sign;
    users.nodes.put(node, now > 0);
    if (now > 0) continue;
    users.pods.erase(node);
    if (!users.pods.empty()) continue;
    ports[number].erase(port.ip);
    if (ports[number].empty()) ports.erase(number);
  }
}

void RuleBook::State::count_requests(const Template& like, NodeIndex node, std::int64_t sign) {
  auto& free = slots[node].free;
  for (const auto& [resource, amount] : asks[like.ask].amounts) {
    if (resource >= free.size()) free.resize(resource + 1);
    free[resource] -= sign * amount;
  }
  asks.each([&](PartId, Ask& ask) { judge(ask, node); });
}

void RuleBook::State::count(PodRecord& pod, std::int64_t sign) {
  const Template& like = templates[pod.like];
  const LabelSet::Count by{sign, pod.terminating ? 0 : sign};
  LabelSet& labels = label_sets[like.labels];
  auto& at = labels.at[pod.node];
  at.all += by.all;
  at.staying += by.staying;
  if (at.all == 0) labels.at.erase(pod.node);
  for (const PartId selector : labels.matching) count(selector, pod.node, by);
  for (const auto& own : like.claims) count(claims[own.claim], pod.node, sign * own.forbids, sign * own.weight);
  count_ports(like.pods->rules, pod.node, sign);
  count_requests(like, pod.node, sign);
}

void RuleBook::State::settle(PodRecord& pod, NodeIndex node) {
  NodeSlot& slot = slots[node];
  pod.node = node;
  pod.at = slot.pods.size();
  slot.pods.push_back(&pod);
  if (slot.known) count(pod, 1);
}

void RuleBook::State::unsettle(PodRecord& pod) {
  NodeSlot& slot = slots[pod.node];
  if (slot.known) count(pod, -1);
  slot.pods.back()->at = pod.at;
  slot.pods[pod.at] = slot.pods.back();
  slot.pods.pop_back();
}

void RuleBook::State::put_pod(const PodView& pod) {
  const NodeIndex node = slot_of(pod.node);
  PodRecord* record = records.find(pod.uid);
  if (record == nullptr) {
    record = &records.emplace(pod.uid, {});
    ++record_count;
  } else {
    if (record->like == pod.pods_like && record->node == node && record->terminating == pod.terminating) return;
    unsettle(*record);
    if (record->node != node) free_slot(record->node);
    release(record->like);
  }
  templates.hold(pod.pods_like);
  record->like = pod.pods_like;
  record->terminating = pod.terminating;
  settle(*record, node);
}

void RuleBook::State::drop_pod(const std::string& uid) {
  PodRecord* record = records.find(uid);
  if (record == nullptr) return;
  unsettle(*record);
  free_slot(record->node);
  release(record->like);
  records.erase(uid);
  --record_count;
}

void RuleBook::State::put_namespace(const Namespace& ns, const Labels* labels) {
  if (labels_of(ns) == (labels == nullptr ? Labels() : *labels)) return;
  if (labels == nullptr) {
    namespaces.erase(ns);
  } else {
    namespaces.insert_or_assign(ns, *labels);
  }
  label_sets.each([&](PartId, LabelSet& set) {
    if (set.ns != ns) return;
    std::vector<PartId> matching;
    selectors.each([&](PartId id, const Selector& selector) {
      if (matches(selector, set)) matching.push_back(id);
    });
    const auto recount = [&](const std::vector<PartId>& these, const std::vector<PartId>& less, std::int64_t sign) {
      for (const PartId id : these) {
        if (std::ranges::binary_search(less, id)) continue;
        for (const auto& [node, by] : set.at) count(id, node, {sign * by.all, sign * by.staying});
      }
    };
    recount(set.matching, matching, -1);
    recount(matching, set.matching, 1);
    set.matching = std::move(matching);
  });
}

}  // namespace qm::kube_rules
