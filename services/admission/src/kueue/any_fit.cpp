#include "qm/admission/kueue/any_fit.hpp"

#include "flavor_choices.hpp"

#include <vector>

namespace qm::admission::kueue {
namespace {

constexpr std::size_t kMostCombinations = 512;

struct NoCandidates final : Oracle {
  Fitting simulate(const Work& /*work*/, Cell /*cell*/, std::int64_t /*amount*/) override {
    return {Mode::kNoCandidates, 0};
  }
};

Assignment pinned(const std::vector<FlavorOptions>& choices, std::size_t sets) {
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

std::optional<Assignment> any_fit(const QuotaState& field, const Work& work) {
  NoCandidates no_candidates;
  const auto& rules = field.rules[static_cast<std::size_t>(work.queue)];
  const FlavorAssigner assigner(field.tree, rules, no_candidates, field.fair_sharing, field.pods,
                                field.topologies.get());
  std::optional<Assignment> out;
  const auto attempt = [&](std::span<const std::int32_t> counts, const Assignment* same_as) {
    auto made = assigner.assign(work, counts, same_as);
    if (made.mode() != Mode::kFit || !field.tree.fits(work.queue, made.usage)) return false;
    out = std::move(made);
    return true;
  };
  const auto choices = choices_of(rules, work, 2);
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

}  // namespace qm::admission::kueue
