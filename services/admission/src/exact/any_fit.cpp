#include "qm/admission/exact/any_fit.hpp"

#include <vector>

namespace qm::admission::exact {
namespace {

constexpr std::size_t kMostCombinations = 512;

struct Nobody final : Oracle {
  Fitting simulate(const Work& /*work*/, Cell /*cell*/, std::int64_t /*amount*/) override {
    return {Mode::kNoCandidates, 0};
  }
};

/// One choice that is free: the flavor of a resource group for a pod set, or for all pod sets that have theirs in common.
struct Choice {
  std::vector<std::size_t> sets;
  const QueueRules::Group* group = nullptr;
  std::size_t option = 0;
};

std::vector<Choice> choices_of(const QueueRules& rules, const Work& work) {
  std::vector<Choice> out;
  for (std::size_t i = 0; i < work.pod_sets.size(); ++i) {
    const auto& set = work.pod_sets[i];
    for (const auto& [resource, each] : set.each) {
      const auto* group = rules.group_of(resource);
      if (group == nullptr || group->options.size() < 2) continue;
      Choice* known = nullptr;
      for (auto& choice : out) {
        if (choice.group != group) continue;
        const auto& first = work.pod_sets[choice.sets.front()];
        if (choice.sets.front() == i || (set.group >= 0 && first.group == set.group)) known = &choice;
      }
      if (known == nullptr) known = &out.emplace_back(Choice{{}, group, 0});
      if (known->sets.empty() || known->sets.back() != i) known->sets.push_back(i);
    }
  }
  return out;
}

/// The next combination, the last choice running fastest; false after the last one.
bool advance(std::vector<Choice>& choices) {
  for (auto choice = choices.rbegin(); choice != choices.rend(); ++choice) {
    if (++choice->option < choice->group->options.size()) return true;
    choice->option = 0;
  }
  return false;
}

Assignment pinned(const std::vector<Choice>& choices, std::size_t sets) {
  Assignment out;
  out.sets.resize(sets);
  for (const auto& choice : choices) {
    for (const auto set : choice.sets) {
      for (const Resource r : choice.group->resources) {
        out.sets[set].flavors.push_back({.resource = r, .flavor = choice.group->options[choice.option].flavor});
      }
    }
  }
  return out;
}

}  // namespace

std::optional<Assignment> any_fit(const Field& field, const Work& work) {
  Nobody nobody;
  const auto& rules = field.rules[static_cast<std::size_t>(work.queue)];
  const FlavorAssigner assigner(field.tree, rules, nobody, field.fair_sharing, field.pods, field.topologies.get());
  std::optional<Assignment> out;
  const auto attempt = [&](std::span<const std::int32_t> counts, const Assignment* same_as) {
    auto made = assigner.assign(work, counts, same_as);
    if (made.mode() != Mode::kFit || !field.tree.fits(work.queue, made.usage)) return false;
    out = std::move(made);
    return true;
  };
  const auto choices = choices_of(rules, work);
  const auto any = [&](std::span<const std::int32_t> counts) {
    if (attempt(counts, nullptr)) return true;
    if (choices.size() < 2) return false;
    auto combination = choices;
    for (std::size_t tried = 0; tried < kMostCombinations; ++tried) {
      const auto same_as = pinned(combination, work.pod_sets.size());
      if (attempt(counts, &same_as)) return true;
      if (!advance(combination)) break;
    }
    return false;
  };
  if (any({}) || reduce(work.pod_sets, any)) return out;
  return std::nullopt;
}

}  // namespace qm::admission::exact
