// Inter-pod rules: the pods in the rule book, and a gang's view of it during its placement.
#include "engine/allocator/mounts.hpp"
#include "engine/allocator/rule_book_constraints.hpp"
#include "qm/base/assert.hpp"
#include "qm/kube_rules/text.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace qm::placement {
namespace {

/// Requests and pod counts are limited by the free capacity, not by the rules.

rules::NodeView view_of(const NodeName& name, const NodeFacts& facts) {
  return {name, facts.labels, facts.taints, false, {{"pods", kAnyNumber}}};
}

}  // namespace

// Live members by their pod, or by the rules known when they were placed; and pods without a member.
std::map<std::string, Engine::BookedPod> Engine::booked_pods_on(const NodeName& name) const {
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
  for (const Pod* pod : non_member_pods(name)) {
    if (!pod->facts.rules.empty()) out.emplace(pod->facts.uid, BookedPod{pod->facts.rules, pod->facts.deleting});
  }
  return out;
}

void Engine::book_node(const NodeName& name) {
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

// Rules of the attempt's pods if they exist, else of their templates; empty if none has any.
std::vector<std::string> Engine::rules_of(const AttemptId& id, const std::vector<PodSet>& pod_sets) const {
  std::vector<std::string> out(pod_sets.size());
  for (const Pod* pod : pods_of(id)) {
    const PodFacts& facts = pod->facts;
    const auto set =
        facts.pod_set.empty() ? pod_sets.begin() : std::ranges::find(pod_sets, facts.pod_set, &PodSet::name);
    if (set == pod_sets.end()) continue;
    auto& text = out[static_cast<std::size_t>(set - pod_sets.begin())];
    if (text.empty() && !facts.terminal()) text = facts.rules;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i].empty()) out[i] = pod_sets[i].rules;
  }
  if (std::ranges::all_of(out, [](const std::string& text) { return text.empty(); })) out.clear();
  return out;
}

// Claims of bound pods exist already, and do not constrain other pods.
std::vector<std::vector<PodClaim>> Engine::own_claims_of(const AttemptId& id,
                                                         const std::vector<PodSet>& pod_sets) const {
  std::vector<std::vector<PodClaim>> out;
  for (const Pod* pod : pods_of(id)) {
    const PodFacts& facts = pod->facts;
    if (!rules::names_own_claims(facts.rules) || !facts.node.empty() || facts.terminal() || facts.deleting) continue;
    const auto set =
        facts.pod_set.empty() ? pod_sets.begin() : std::ranges::find(pod_sets, facts.pod_set, &PodSet::name);
    const auto like = rules::template_of(facts.rules);
    if (set == pod_sets.end() || !like) continue;
    out.resize(pod_sets.size());
    std::ranges::move(placement::own_claims_of(facts, *like),
                      std::back_inserter(out[static_cast<std::size_t>(set - pod_sets.begin())]));
  }
  for (auto& claims : out) std::ranges::sort(claims);
  return out;
}

// Labels alone exclude no node, unless an existing pod has anti-affinity to such labels. Without them, jobs
// that differ only in labels have equal requests and share one result. Node selectors and tolerations are in
// the shape.
std::vector<std::string> Engine::effective_rules(const std::vector<PodSet>& pod_sets,
                                                 std::vector<std::string> rules) const {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const auto like = rules::template_of(rules[i]);
    if (!like) continue;
    if (!is_plain(like->rules) || like->labels.contains(std::string(kModelLabel)) ||
        !std::ranges::includes(pod_sets[i].shape.node_selector, like->rules.node_selector)) {
      return rules;
    }
    const auto id = index_.book->hold(*like);
    const bool away = index_.book->repelled(id);
    index_.book->release(id);
    if (away) return rules;
  }
  return {};
}

Engine::RuleBookConstraints::RuleBookConstraints(rules::RuleBook& book,
                                                 const std::vector<std::optional<rules::PodTemplate>>& likes)
    : book_(book) {
  for (const auto& like : likes) {
    auto& kind = kinds_.emplace_back();
    if (!like) continue;
    kind.emplace();
    kind->id = book_.hold(*like);
    book_.keep(*like);
    if (const auto model = like->labels.find(std::string(kModelLabel)); model != like->labels.end())
      kind->data = std::string(kCachePrefix) + model->second;
    kind->one_by_one = one_by_one(like->rules);
    shifts_ = shifts_ || kind->one_by_one;
  }
}

Engine::RuleBookConstraints::~RuleBookConstraints() {
  for (const std::string& uid : taken_) book_.drop_pod(uid);
  for (const auto& kind : kinds_) {
    if (kind) book_.release(kind->id);
  }
}

bool Engine::RuleBookConstraints::one_by_one(const rules::PodRules& r) {
  return !r.affinity.empty() || !r.anti_affinity.empty() || !r.spread.empty() || !r.ports.empty() ||
         !r.preferred_affinity.empty() || !r.preferred_anti_affinity.empty() || !r.preferred.empty();
}

bool Engine::RuleBookConstraints::one_by_one(std::size_t set) const { return kinds_[set] && kinds_[set]->one_by_one; }

bool Engine::RuleBookConstraints::suits(std::size_t, const NodeName&, const NodeCapacity&) const { return true; }

const DynamicConstraints* Engine::RuleBookConstraints::dynamic(std::size_t set) const {
  return kinds_[set] ? this : nullptr;
}

rules::NodeIndex Engine::RuleBookConstraints::number(const NodeName& node, const NodeCapacity& capacity) const {
  if (capacity.number) return *capacity.number;
  const auto index = book_.index_of(node);
  QM_ASSERT(index, "the rule book has no node {}", node);
  return *index;
}

const rules::NodeSet& Engine::RuleBookConstraints::open(std::size_t set) const {
  const Kind& kind = *kinds_[set];
  if (!std::exchange(kind.asked, true)) kind.open = book_.feasible(kind.id);
  return kind.open;
}

const std::vector<std::int64_t>* Engine::RuleBookConstraints::worth(std::size_t set) const {
  const Kind& kind = *kinds_[set];
  if (book_.indifferent(kind.id)) return nullptr;
  if (!std::exchange(kind.scored, true)) {
    kind.worth.clear();
    for (const auto& [index, score] : book_.preferences(kind.id, open(set))) {
      kind.worth.resize(index + std::size_t{1});  // ordered by index
      kind.worth[index] = score;
    }
  }
  return &kind.worth;
}

std::string Engine::RuleBookConstraints::rejects(std::size_t set, const NodeName& node,
                                                 const NodeCapacity& capacity) const {
  if (admits(set, node, capacity)) return {};
  const Kind& kind = *kinds_[set];
  if (!std::exchange(kind.explained, true)) kind.why_not = book_.why_not(kind.id);
  return kind.why_not[number(node, capacity)];
}

bool Engine::RuleBookConstraints::has_data(std::size_t set, const NodeCapacity& capacity) const {
  if (!kinds_[set] || kinds_[set]->data.empty()) return false;
  const auto label = capacity.facts->labels.find(kinds_[set]->data);
  return label != capacity.facts->labels.end() && label->second == "true";
}

void Engine::RuleBookConstraints::take(std::size_t set, const NodeName& node) {
  if (!shifts_ || !kinds_[set]) return;  // no set has rules about it
  taken_.push_back(fmt::format("if {}", taken_.size()));
  book_.put_pod({taken_.back(), node, kinds_[set]->id});
  for (auto& kind : kinds_) {
    if (kind) kind->asked = kind->scored = kind->explained = false;
  }
}

}  // namespace qm::placement
