#include "matcher.hpp"

#include "qm/base/parse.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::topology {
namespace {

using kube_rules::Requirement, kube_rules::SelectorTerm;

/// A requirement in the word ids of one matcher.
struct CompiledRequirement {
  LabelId key = kNoLabel;  ///< kNoLabel: no leaf has it
  Requirement::Op op = Requirement::Op::kExists;
  std::vector<LabelId> values;  ///< sorted
  std::optional<std::int64_t> bound;

  CompiledRequirement(const Matcher& m, const Requirement& r) : key(m.find(r.key)), op(r.op) {
    for (const auto& v : r.values) values.push_back(m.find(v));
    std::ranges::sort(values);
    if (!r.values.empty()) bound = whole_number(r.values[0]);
  }

  [[nodiscard]] bool holds(const Matcher& m, LabelId value) const {
    const bool there = value != kNoLabel;
    const bool listed = there && std::ranges::binary_search(values, value);
    switch (op) {
      case Requirement::Op::kIn:
        return listed;
      case Requirement::Op::kNotIn:
        return !listed;
      case Requirement::Op::kExists:
        return there;
      case Requirement::Op::kDoesNotExist:
        return !there;
      case Requirement::Op::kGt:
      case Requirement::Op::kLt: {
        const auto number = there ? whole_number(m.words[static_cast<std::size_t>(value)]) : std::nullopt;
        if (!number || !bound) return false;
        return op == Requirement::Op::kGt ? *number > *bound : *number < *bound;
      }
    }
    return false;
  }
};

struct CompiledTerm {
  std::vector<CompiledRequirement> labels, fields;

  CompiledTerm(const Matcher& m, const SelectorTerm& term) {
    for (const auto& r : term.labels) labels.emplace_back(m, r);
    for (const auto& r : term.fields) fields.emplace_back(m, r);
  }
  [[nodiscard]] bool matches(const Matcher& m, DomainId leaf) const {
    if (labels.empty() && fields.empty()) return false;
    return std::ranges::all_of(labels, [&](const auto& r) { return r.holds(m, m.value_of(leaf, r.key)); }) &&
           std::ranges::all_of(fields, [&](const auto& r) { return r.holds(m, m.name[m.index(leaf)]); });
  }
};

}  // namespace

LabelId Matcher::intern(const std::string& label) {
  const auto [it, fresh] = ids.try_emplace(label, static_cast<LabelId>(words.size()));
  if (fresh) words.push_back(label);
  return it->second;
}

LabelId Matcher::find(std::string_view label) const {
  const auto it = ids.find(label);
  return it == ids.end() ? kNoLabel : it->second;
}

void Matcher::add(const Node& node) {
  const auto begin = static_cast<std::ptrdiff_t>(labels.size());
  for (const auto& [key, value] : node.labels) labels.push_back({intern(key), intern(value)});
  std::sort(labels.begin() + begin, labels.end(), [](Label a, Label b) { return a.key < b.key; });
  labels_end.push_back(labels.size());
  name.push_back(intern(node.name));
  const auto [it, fresh] = class_ids_.try_emplace(node.taints, static_cast<std::int32_t>(taint_classes.size()));
  if (fresh) taint_classes.push_back(node.taints);
  taint_class.push_back(it->second);
}

LabelId Matcher::value_of(DomainId leaf, LabelId key) const {
  if (key == kNoLabel) return kNoLabel;
  const auto i = index(leaf);
  const auto begin = labels.begin() + static_cast<std::ptrdiff_t>(i == 0 ? 0 : labels_end[i - 1]);
  const auto end = labels.begin() + static_cast<std::ptrdiff_t>(labels_end[i]);
  const auto it = std::lower_bound(begin, end, key, [](Label a, LabelId k) { return a.key < k; });
  return it != end && it->key == key ? it->value : kNoLabel;
}

struct LeafMatcher::Compiled {
  const Matcher* matcher = nullptr;      ///< null: all leaves match
  std::vector<const Taint*> in_the_way;  ///< by class of taints; null: none
  std::vector<Matcher::Label> selector;
  std::optional<std::vector<CompiledTerm>> required;
  std::vector<std::pair<std::int64_t, CompiledTerm>> preferred;
};

LeafMatcher::LeafMatcher(const Topology& topology, const kube_rules::NodeConstraints& rules)
    : rules_(std::make_unique<Compiled>()) {
  const Matcher* m = topology.matcher_.get();
  rules_->matcher = m;
  if (m == nullptr) return;
  auto tolerations = rules.tolerations;
  const auto& more = topology.flavor().tolerations;
  tolerations.insert(tolerations.end(), more.begin(), more.end());
  for (const auto& taints : m->taint_classes) rules_->in_the_way.push_back(untolerated(taints, tolerations));
  for (const auto& [key, value] : rules.node_selector) rules_->selector.push_back({m->find(key), m->find(value)});
  if (rules.required) {
    rules_->required.emplace();
    for (const auto& term : *rules.required) rules_->required->emplace_back(*m, term);
  }
  for (const auto& p : rules.preferred) {
    if (p.weight != 0) rules_->preferred.emplace_back(p.weight, CompiledTerm(*m, p.term));
  }
}

LeafMatcher::~LeafMatcher() = default;

LeafMatcher::Verdict LeafMatcher::of(DomainId leaf) const {
  const Matcher* m = rules_->matcher;
  if (m == nullptr) return Verdict::kMatches;
  const auto taints = static_cast<std::size_t>(m->taint_class[m->index(leaf)]);
  if (rules_->in_the_way[taints] != nullptr) return Verdict::kTaint;
  for (const auto& [key, value] : rules_->selector) {
    if (value == kNoLabel || m->value_of(leaf, key) != value) return Verdict::kSelector;
  }
  const auto matches = [&](const CompiledTerm& term) { return term.matches(*m, leaf); };
  if (rules_->required && std::ranges::none_of(*rules_->required, matches)) return Verdict::kAffinity;
  return Verdict::kMatches;
}

std::string LeafMatcher::taint_in_the_way(DomainId leaf) const {
  const Matcher& m = *rules_->matcher;
  const Taint* taint = rules_->in_the_way[static_cast<std::size_t>(m.taint_class[m.index(leaf)])];
  return taint == nullptr ? "" : text_of(*taint);
}

std::int64_t LeafMatcher::preference(DomainId leaf) const {
  std::int64_t out = 0;
  for (const auto& [weight, term] : rules_->preferred) {
    if (term.matches(*rules_->matcher, leaf)) out += weight;
  }
  return out;
}

}  // namespace qm::topology
