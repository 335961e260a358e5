#pragma once
#include "qm/model/resources.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::kube_rules {

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
using NodeSelector = std::vector<SelectorTerm>;  ///< any of the terms must match; without terms none matches

/// The nodes on which a pod may run, and those that it prefers, by labels and taints alone.
struct NodeConstraints {
  Labels node_selector;
  std::vector<Toleration> tolerations;
  std::optional<NodeSelector> required;  ///< required node affinity
  std::vector<PreferredTerm> preferred;
};

}  // namespace qm::kube_rules
