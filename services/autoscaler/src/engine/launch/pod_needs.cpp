// Node selector, required node affinity, and anti-affinity by host, of a pod template.
#include "launch/pod_needs.hpp"

#include "qm/autoscaler/requirements/keys.hpp"
#include "qm/kube_rules/text.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace qm::autoscaler {
namespace {

constexpr std::size_t kMostTemplates = 10'000;

/// None if no new node matches the term: it names nodes, or its expressions are not valid or contradict one another.
std::optional<Requirements> requirements_of(const kube_rules::SelectorTerm& term) {
  if (!term.fields.empty() || term.labels.empty()) return std::nullopt;
  Requirements out;
  for (const auto& expression : term.labels) {
    const auto requirement = requirement_of(expression_of(expression));
    if (!requirement) return std::nullopt;
    const Requirement* known = out.find(requirement->key);
    const bool contradiction = known != nullptr && !intersects(*known, *requirement);
    if (contradiction) return std::nullopt;
    out.add(*requirement);
  }
  return out;
}

bool matches(const kube_rules::PodTerm& term, const PodNeeds& owner, const PodNeeds& other) {
  if (!term.pods || !term.pods->matches(other.labels)) return false;
  // The labels of namespaces are not known here: a selector counts as matching, so that no two pods that exclude one
  // another are planned on one node.
  if (term.namespace_selector) return true;
  if (term.namespaces.empty()) return owner.ns == other.ns;
  return std::ranges::find(term.namespaces, other.ns.value()) != term.namespaces.end();
}

void read_rules(const std::string& text, PodNeeds& out) {
  const auto like = text.empty() ? std::nullopt : kube_rules::template_of(text);
  if (!like) return;
  out.ns = like->ns;
  out.labels = like->labels;
  for (const auto& term : like->rules.anti_affinity) {
    if (term.topology_key == kHostname) out.apart.push_back(term);
  }
  if (!like->rules.required) return;
  for (const auto& term : *like->rules.required) {
    if (auto requirements = requirements_of(term)) out.terms.push_back(std::move(*requirements));
  }
  out.impossible = out.terms.empty();
}

}  // namespace

Expression expression_of(const kube_rules::Requirement& from) {
  // In the order of kube_rules::Requirement::Op.
  constexpr std::array kOps{Operator::kIn,           Operator::kNotIn, Operator::kExists,
                            Operator::kDoesNotExist, Operator::kGt,    Operator::kLt};
  return {from.key, kOps.at(static_cast<std::size_t>(from.op)), from.values, {}};
}

bool PodNeeds::excludes(const PodNeeds& other) const {
  const auto any = [](const PodNeeds& a, const PodNeeds& b) {
    return std::ranges::any_of(a.apart, [&](const auto& term) { return matches(term, a, b); });
  };
  return any(*this, other) || any(other, *this);
}

const PodNeeds& NeedsBook::of(const PodSet& set) {
  const auto known = known_.find(View{set.rules, set.shape.node_selector});
  if (known != known_.end()) return known->second;
  PodNeeds& needs = known_[{set.rules, set.shape.node_selector}];
  needs.selector = Requirements(set.shape.node_selector);
  read_rules(set.rules, needs);
  return needs;
}

void NeedsBook::trim() {
  if (known_.size() > kMostTemplates) known_.clear();
}

}  // namespace qm::autoscaler
