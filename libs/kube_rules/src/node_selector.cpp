#include "qm/kube_rules/node_selector.hpp"

#include <charconv>

namespace qm::kube_rules {

std::optional<Requirement::Op> op_of(std::string_view label) {
  if (label == "In") return Requirement::Op::kIn;
  if (label == "NotIn") return Requirement::Op::kNotIn;
  if (label == "Exists") return Requirement::Op::kExists;
  if (label == "DoesNotExist") return Requirement::Op::kDoesNotExist;
  if (label == "Gt") return Requirement::Op::kGt;
  if (label == "Lt") return Requirement::Op::kLt;
  return std::nullopt;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

}  // namespace qm::kube_rules
