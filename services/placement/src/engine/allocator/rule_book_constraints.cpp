// A gang's view of the inter-pod rules during its placement.
#include "engine/allocator/rule_book_constraints.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <utility>

namespace qm::placement {

RuleBookConstraints::RuleBookConstraints(rules::RuleBook& book,
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

RuleBookConstraints::~RuleBookConstraints() {
  for (const std::string& uid : taken_) book_.drop_pod(uid);
  for (const auto& kind : kinds_) {
    if (kind) book_.release(kind->id);
  }
}

bool RuleBookConstraints::one_by_one(const rules::PodRules& r) {
  return !r.affinity.empty() || !r.anti_affinity.empty() || !r.spread.empty() || !r.ports.empty() ||
         !r.preferred_affinity.empty() || !r.preferred_anti_affinity.empty() || !r.preferred.empty();
}

bool RuleBookConstraints::one_by_one(std::size_t set) const { return kinds_[set] && kinds_[set]->one_by_one; }

bool RuleBookConstraints::suits(std::size_t, const NodeName&, const NodeCapacity&) const { return true; }

const DynamicConstraints* RuleBookConstraints::dynamic(std::size_t set) const { return kinds_[set] ? this : nullptr; }

rules::NodeIndex RuleBookConstraints::number(const NodeName& node, const NodeCapacity& capacity) const {
  if (capacity.number) return *capacity.number;
  const auto index = book_.index_of(node);
  QM_ASSERT(index, "the rule book has no node {}", node);
  return *index;
}

const rules::NodeSet& RuleBookConstraints::open(std::size_t set) const {
  const Kind& kind = *kinds_[set];
  if (!std::exchange(kind.asked, true)) kind.open = book_.feasible(kind.id);
  return kind.open;
}

const std::vector<std::int64_t>* RuleBookConstraints::worth(std::size_t set) const {
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

std::string RuleBookConstraints::rejects(std::size_t set, const NodeName& node, const NodeCapacity& capacity) const {
  if (admits(set, node, capacity)) return {};
  const Kind& kind = *kinds_[set];
  if (!std::exchange(kind.explained, true)) kind.why_not = book_.why_not(kind.id);
  return kind.why_not[number(node, capacity)];
}

bool RuleBookConstraints::has_data(std::size_t set, const NodeCapacity& capacity) const {
  if (!kinds_[set] || kinds_[set]->data.empty()) return false;
  const auto label = capacity.facts->labels.find(kinds_[set]->data);
  return label != capacity.facts->labels.end() && label->second == "true";
}

void RuleBookConstraints::take(std::size_t set, const NodeName& node) {
  if (!shifts_ || !kinds_[set]) return;  // no set has rules about it
  taken_.push_back(fmt::format("if {}", taken_.size()));
  book_.put_pod({taken_.back(), node, kinds_[set]->id});
  for (auto& kind : kinds_) {
    if (kind) kind->asked = kind->scored = kind->explained = false;
  }
}

}  // namespace qm::placement
