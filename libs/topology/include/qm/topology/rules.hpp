#pragma once
#include "qm/model/resources.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::topology {

/// One expression of a node selector, as in Kubernetes.
struct Requirement {
  enum class Op : std::uint8_t { kIn, kNotIn, kExists, kDoesNotExist, kGt, kLt };
  std::string key;
  Op op = Op::kExists;
  std::vector<std::string> values;  ///< for kGt and kLt one whole number
};
[[nodiscard]] std::optional<Requirement::Op> op_of(std::string_view label);  ///< "In", "NotIn", ...

/// All expressions must match; a term without any matches nothing.
struct SelectorTerm {
  std::vector<Requirement> labels;
  std::vector<Requirement> fields;  ///< of the node's name only ("metadata.name")
};
struct PreferredTerm {
  std::int64_t weight = 0;
  SelectorTerm term;
};

/// The nodes on which the pods of a pod set may run, and those that they prefer.
struct PodRules {
  Labels node_selector;
  std::vector<Toleration> tolerations;
  std::optional<std::vector<SelectorTerm>> required;  ///< any of the terms; an empty list matches no node
  std::vector<PreferredTerm> preferred;
};

}  // namespace qm::topology
