#include "qm/admission/kueue/transformations.hpp"

#include "qm/admission/kueue/amount.hpp"
#include "qm/admission/kueue/objects.hpp"

namespace qm::admission::kueue {

Transformations::Transformations(const Json& list) {
  for (const auto& one : list.items()) {
    auto& rule = rules_[one["input"].string()];
    rule.retains = one["strategy"].string_or("Retain") == "Retain";
    rule.times = one["multiplyBy"].string();
    for (const auto& [resource, factor] : one["outputs"].members()) rule.outputs.emplace(resource, factor);
  }
}

std::map<std::string, std::int64_t> Transformations::apply(std::map<std::string, std::int64_t> requests) const {
  if (rules_.empty()) return requests;
  std::map<std::string, std::int64_t> out;
  // Whole units, rounded up: a thousandth of a CPU counts as one here.
  const auto whole = [](const std::string& resource, std::int64_t amount) {
    return resource == "cpu" ? (amount + 999) / 1000 : amount;
  };
  for (const auto& [resource, amount] : requests) {
    const auto found = rules_.find(resource);
    if (found == rules_.end()) {
      out[resource] = plus(out[resource], amount);
      continue;
    }
    const auto& rule = found->second;
    auto units = whole(resource, amount);
    if (const auto times = requests.find(rule.times); times != requests.end()) {
      units *= whole(times->first, times->second);
    }
    for (const auto& [to, factor] : rule.outputs) out[to] = plus(out[to], canonical(to, factor) * units);
    if (rule.retains) out[resource] = plus(out[resource], amount);
  }
  return out;
}

}  // namespace qm::admission::kueue
