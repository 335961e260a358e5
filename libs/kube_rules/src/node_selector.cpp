#include "qm/kube_rules/node_selector.hpp"

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

}  // namespace qm::kube_rules
