#pragma once
#include "qm/kube_rules/pod_rules.hpp"

#include <span>
#include <string>
#include <string_view>

namespace qm::kube_rules {

/// Evaluates one expression against the label's value; null if the node has no such label.
///
/// NotIn and DoesNotExist match a node without the label; Gt and Lt only if both sides are integers.
[[nodiscard]] bool holds(const Requirement& requirement, const std::string* value);
/// All expressions and fields must match; a term without any matches nothing. The only field is
/// "metadata.name".
[[nodiscard]] bool matches(const SelectorTerm& term, const NodeView& node);
/// Any term must match.
[[nodiscard]] bool matches(const NodeSelector& terms, const NodeView& node);

/// "zone in (a, b)", "!spot", "cores > 8"; a term joins its expressions with " and ".
[[nodiscard]] std::string words_of(const Requirement& requirement);
/// For several terms only their number.
[[nodiscard]] std::string words_of(const NodeSelector& terms);

/// A hard constraint on the node alone: equal for all pods of a template, whatever other pods run.
///
/// Threads  any; rules have no state.
/// Source   the filters NodeUnschedulable, NodeAffinity, TaintToleration and VolumeBinding of kube-scheduler.
class NodeRule {
 public:
  virtual ~NodeRule() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual bool admits(const PodRules& pod, const NodeView& node) const = 0;
  /// The reason for a node that is not admitted, as text after a number of nodes ("3 nodes ...").
  [[nodiscard]] virtual std::string words(const PodRules& pod, const NodeView& node) const = 0;
  /// The part of the pod's rules that the result depends on, as text: equal texts give equal results.
  [[nodiscard]] virtual std::string concerns(const PodRules& pod) const = 0;
};

/// In the order of evaluation: unschedulable, selector, affinity, taints, volumes.
[[nodiscard]] std::span<const NodeRule* const> node_rules();

/// A soft constraint on the node alone.
class NodePreference {
 public:
  virtual ~NodePreference() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::int64_t of(const PodRules& pod, const NodeView& node) const = 0;
  [[nodiscard]] virtual std::string concerns(const PodRules& pod) const = 0;
};

/// The sum of the weights of the preferred node affinity terms that the node matches.
[[nodiscard]] const NodePreference& preferred_affinity();
/// Number of taints with effect PreferNoSchedule that the pod does not tolerate.
[[nodiscard]] const NodePreference& soft_taints();

}  // namespace qm::kube_rules
