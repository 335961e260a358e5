// Labels that the requirements of a pool leave open.
#include "launch/offer.hpp"
#include "qm/base/parse.hpp"

#include <algorithm>
#include <set>

namespace qm::autoscaler {

bool allows(const LabelRule& rule, const std::string& value) {
  if (rule.absent) return false;
  if (std::binary_search(rule.values.begin(), rule.values.end(), value) != rule.listed) return false;
  if (!rule.at_least && !rule.at_most) return true;
  const auto number = whole_number(value);
  return number && *number >= rule.at_least.value_or(*number) && *number <= rule.at_most.value_or(*number);
}

std::optional<std::string> lowest(const LabelRule& rule) {
  if (rule.absent || !rule.required) return std::nullopt;
  if (rule.listed) {
    const auto first =
        std::find_if(rule.values.begin(), rule.values.end(), [&](const auto& v) { return allows(rule, v); });
    return first == rule.values.end() ? std::nullopt : std::optional(*first);
  }
  // At most one more than the number of excluded values.
  std::int64_t number = std::max<std::int64_t>(rule.at_least.value_or(0), 0);
  while (std::binary_search(rule.values.begin(), rule.values.end(), std::to_string(number))) ++number;
  return std::to_string(number);
}

std::optional<Labels> chosen_labels(const Pool& pool, const std::vector<PodSet>& sets) {
  Labels out;
  for (const LabelRule& rule : pool.rules) {
    std::optional<std::string> value;
    for (const PodSet& set : sets) {
      const auto asked = set.shape.node_selector.find(rule.key);
      if (set.count == 0 || asked == set.shape.node_selector.end()) continue;
      if (!allows(rule, asked->second) || (value && *value != asked->second)) return std::nullopt;
      value = asked->second;
    }
    if (!value) value = lowest(rule);
    if (value) out[rule.key] = *value;
  }
  return out;
}

std::string contested_label(const Pool& pool, const std::vector<PodSet>& sets) {
  for (const LabelRule& rule : pool.rules) {
    std::set<std::string> values;
    for (const PodSet& set : sets) {
      const auto asked = set.shape.node_selector.find(rule.key);
      if (set.count > 0 && asked != set.shape.node_selector.end()) values.insert(asked->second);
    }
    const bool allowed = std::ranges::all_of(values, [&](const auto& value) { return allows(rule, value); });
    if (values.size() > 1 && allowed) return rule.key;
  }
  return {};
}

}  // namespace qm::autoscaler
