#include "flavor_choices.hpp"

namespace qm::admission::kueue {

std::vector<FlavorOptions> choices_of(const QueueRules& rules, const Work& work, std::size_t least) {
  std::vector<FlavorOptions> out;
  for (std::size_t i = 0; i < work.pod_sets.size(); ++i) {
    const auto& set = work.pod_sets[i];
    for (const auto& [resource, each] : set.each) {
      const auto* group = rules.group_of(resource);
      if (group == nullptr || group->options.size() < least) continue;
      FlavorOptions* known = nullptr;
      for (auto& choice : out) {
        if (choice.group != group) continue;
        const auto& first = work.pod_sets[choice.sets.front()];
        if (choice.sets.front() == i || (set.group >= 0 && first.group == set.group)) known = &choice;
      }
      if (known == nullptr) known = &out.emplace_back(FlavorOptions{{}, group, 0});
      if (known->sets.empty() || known->sets.back() != i) known->sets.push_back(i);
    }
  }
  return out;
}

bool advance(std::vector<FlavorOptions>& choices) {
  for (auto choice = choices.rbegin(); choice != choices.rend(); ++choice) {
    if (++choice->option < choice->group->options.size()) return true;
    choice->option = 0;
  }
  return false;
}

}  // namespace qm::admission::kueue
