#include "qm/admission/kueue/variants.hpp"

#include <algorithm>
#include <optional>

namespace qm::admission::kueue {
namespace {

/// Its place in the order of liking.
std::optional<std::size_t> place_of(const QueueRules& rules, Flavor flavor) {
  if (rules.groups.empty()) return std::nullopt;
  const auto& options = rules.groups.front().options;
  const auto found = std::ranges::find(options, flavor, &QueueRules::Option::flavor);
  if (found == options.end()) return std::nullopt;
  return static_cast<std::size_t>(found - options.begin());
}

/// Of several the one with the smallest uid.
template <class Liked>
const Work* sibling(const QuotaState& field, const Work& work, Liked&& liked) {
  if (work.ties == nullptr || work.ties->parent.empty()) return nullptr;
  const auto queue = static_cast<std::size_t>(work.queue);
  const auto own = place_of(field.rules[queue], work.ties->flavor);
  if (!own) return nullptr;
  const Work* out = nullptr;
  for (const auto* other : field.holders[queue]) {
    if (!other->admitted || other->ties == nullptr || other->ties->parent != work.ties->parent) continue;
    const auto place = place_of(field.rules[queue], other->ties->flavor);
    if (!place || !liked(*place, *own) || (out != nullptr && out->uid <= other->uid)) continue;
    out = other;
  }
  return out;
}

}  // namespace

const Work* better_variant(const QuotaState& field, const Work& work) {
  return sibling(field, work, [](std::size_t other, std::size_t own) { return other < own; });
}

const Work* worse_variant(const QuotaState& field, const Work& work) {
  return sibling(field, work, [](std::size_t other, std::size_t own) { return other > own; });
}

bool may_migrate(const QueueRules& rules, const Work& work) {
  if (!rules.last_acceptable) return true;
  const auto own = place_of(rules, work.ties->flavor), last = place_of(rules, *rules.last_acceptable);
  return own && last && *own <= *last;
}

}  // namespace qm::admission::kueue
