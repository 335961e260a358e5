#pragma once
#include "state.hpp"

#include <span>

namespace qm::kube_rules {

/// A hard condition on a pod and a node in the current state: the pod does not fit on a node that fails it.
///
/// Threads  any; rules have no state.
class Rule {
 public:
  virtual ~Rule() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Removes the nodes that the rule does not admit.
  virtual void keep(const RuleBook::State& s, const Template& like, NodeSet& nodes) const = 0;
  /// The reason for a node that is not admitted, as words that follow a number of nodes ("3 nodes ...").
  [[nodiscard]] virtual std::string words(const RuleBook::State& s, const Template& like, NodeIndex node) const = 0;
};

/// In the order in which they are checked.
[[nodiscard]] std::span<const Rule* const> hard_rules();

}  // namespace qm::kube_rules
