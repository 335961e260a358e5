// The pods and claims of each node, as the inter-pod rules and the volume limits see them.
#include "engine/allocator/pod_book.hpp"

#include "qm/kube_rules/text.hpp"

#include <algorithm>

namespace qm::placement {

namespace {

const std::string kNoRules, kNoStorageClass;

rules::NodeView view_of(const NodeName& name, const NodeFacts& facts) {
  return {name, facts.labels, facts.taints, false, {{"pods", kAnyNumber}}};
}

}  // namespace

std::map<std::string, BookedPod> PodBook::booked_pods_on(const NodeName& name) const {
  std::map<std::string, BookedPod> out;
  if (const auto members = index_.members.find(name); members != index_.members.end()) {
    for (const auto& [id, position] : members->second) {
      const Assignment& row = *tables_.assignments.find(id);
      const Member& member = row.members[position];
      const Pod* pod = member.pod_uid.empty() ? nullptr : tables_.pods.find(member.pod_uid);
      if (pod != nullptr && pod->facts.node != name) pod = nullptr;
      BookedPod standing;
      if (pod != nullptr) standing.rules = pod->facts.rules;
      if (standing.rules.empty() && !row.rules.empty())
        standing.rules = row.rules[static_cast<std::size_t>(member.set)];
      standing.terminating = pod != nullptr && pod->facts.deleting;
      if (!standing.rules.empty()) out.emplace(fmt::format("{}/{}", id.to_string(), position), std::move(standing));
    }
  }
  for (const Pod* pod : pods_.non_member_pods(name)) {
    if (!pod->facts.rules.empty()) out.emplace(pod->facts.uid, BookedPod{pod->facts.rules, pod->facts.deleting});
  }
  return out;
}

std::set<ClaimUse> PodBook::claims_on(const NodeName& name) const {
  std::set<ClaimUse> out;
  const auto add = [&](const std::string& text, const Pod* pod, const std::string& whose) {
    const auto like = rules::names_claims(text) ? rules::template_of(text) : std::nullopt;
    if (!like) return;
    for (const auto& claim : like->rules.claims) out.insert({fmt::format("{}/{}", like->ns, claim), kNoStorageClass});
    for (const auto& own : like->rules.own_claims) {
      auto named = pod == nullptr ? fmt::format("{} {}", whose, own.volume)
                                  : fmt::format("{}/{}-{}", like->ns, pod->facts.name, own.volume);
      out.insert({std::move(named), own.storage_class});
    }
  };
  if (const auto members = index_.members.find(name); members != index_.members.end()) {
    for (const auto& [id, position] : members->second) {
      const Assignment& row = *tables_.assignments.find(id);
      const Member& member = row.members[position];
      const Pod* pod = member.pod_uid.empty() ? nullptr : tables_.pods.find(member.pod_uid);
      const bool here = pod != nullptr && pod->facts.node == name && !pod->facts.rules.empty();
      const std::string& planned = row.rules.empty() ? kNoRules : row.rules[static_cast<std::size_t>(member.set)];
      add(here ? pod->facts.rules : planned, pod, fmt::format("{}/{}", id.to_string(), position));
    }
  }
  for (const Pod* pod : pods_.non_member_pods(name)) add(pod->facts.rules, pod, {});
  return out;
}

void PodBook::book_node(const NodeName& name) {
  rules::RuleBook& book = *index_.book;
  const Node* node = tables_.nodes.find(name);
  auto next = node == nullptr ? std::map<std::string, BookedPod>() : booked_pods_on(name);
  auto& booked = index_.booked[name];
  const auto key_of = [&](const std::string& key) { return fmt::format("{} {}", name, key); };
  if (node == nullptr) {
    book.drop_node(name);
  } else {
    book.put_node(view_of(name, node->facts));
    if (const auto capacity = index_.free_capacity.find(name); capacity != index_.free_capacity.end())
      capacity->second.number = book.index_of(name);
  }
  for (const auto& [key, standing] : booked) {
    if (!next.contains(key)) book.drop_pod(key_of(key));
  }
  for (const auto& [key, standing] : next) {
    if (const auto old = booked.find(key); old != booked.end() && old->second == standing) continue;
    const auto like = rules::template_of(standing.rules);
    if (!like) {
      book.drop_pod(key_of(key));
      continue;
    }
    const auto id = book.hold(*like);
    book.put_pod({key_of(key), name, id, standing.terminating});
    book.release(id);
  }
  if (std::ranges::any_of(next, [](const auto& standing) { return rules::names_claims(standing.second.rules); })) {
    index_.claims[name] = claims_on(name);
  } else {
    index_.claims.erase(name);
  }
  scratch_.constraints_changed = scratch_.constraints_changed || booked != next;
  booked = std::move(next);
  if (node == nullptr) index_.booked.erase(name);
}

}  // namespace qm::placement
