#include "json_values.hpp"

namespace qm::autoscaler {
namespace {

std::optional<LabelRequirement::Op> label_op(const std::string& name) {
  using Op = LabelRequirement::Op;
  if (name == "In") return Op::kIn;
  if (name == "NotIn") return Op::kNotIn;
  if (name == "Exists") return Op::kExists;
  return name == "DoesNotExist" ? std::optional(Op::kDoesNotExist) : std::nullopt;
}

}  // namespace

std::vector<std::string> texts_of(const Json& list) {
  std::vector<std::string> out;
  for (const Json& item : list.items()) out.push_back(item.string());
  return out;
}

std::optional<LabelSelector> label_selector(const Json& from) {
  if (!from.is_object()) return std::nullopt;
  LabelSelector out;
  for (const auto& [key, value] : from["matchLabels"].members())
    out.requirements.push_back({key, LabelRequirement::Op::kIn, {value.string()}});
  for (const Json& expression : from["matchExpressions"].items()) {
    const auto op = label_op(expression["operator"].string());
    if (!op) return std::nullopt;
    out.requirements.push_back({expression["key"].string(), *op, texts_of(expression["values"])});
  }
  return out;
}

}  // namespace qm::autoscaler
