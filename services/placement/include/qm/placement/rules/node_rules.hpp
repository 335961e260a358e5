#pragma once
#include "qm/placement/rules/pod_rules.hpp"

#include <span>
#include <string>
#include <string_view>

namespace qm::placement::rules {

/// One expression against the label's value; null where the node has no such label.
///
/// NotIn and DoesNotExist hold for a node without the label; Gt and Lt only where both sides are whole numbers.
[[nodiscard]] bool holds(const Requirement& requirement, const std::string* value);
/// All expressions and fields; a term without any matches nothing. Of fields there is "metadata.name" alone.
[[nodiscard]] bool matches(const SelectorTerm& term, const NodeView& node);
/// Any of the terms.
[[nodiscard]] bool matches(const NodeSelector& terms, const NodeView& node);

/// "zone in (a, b)", "!spot", "cores > 8"; a term joins its expressions with " and ".
[[nodiscard]] std::string words_of(const Requirement& requirement);
/// Of several terms only how many there are.
[[nodiscard]] std::string words_of(const NodeSelector& terms);

/// A hard condition on the node alone: the same for every pod of a template, whatever else runs.
///
/// Threads  any; rules have no state.
/// Source   the filters NodeUnschedulable, NodeAffinity, TaintToleration and VolumeBinding of kube-scheduler.
class NodeRule {
 public:
  virtual ~NodeRule() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual bool admits(const PodRules& pod, const NodeView& node) const = 0;
  /// Why not, for a node that is not admitted, as words that follow a number of nodes ("3 nodes ...").
  [[nodiscard]] virtual std::string words(const PodRules& pod, const NodeView& node) const = 0;
  /// What of the pod's rules the answer depends on, as a text: equal texts, equal answers.
  [[nodiscard]] virtual std::string concerns(const PodRules& pod) const = 0;
};

/// In the order in which they are asked: unschedulable, selector, affinity, taints, volumes.
[[nodiscard]] std::span<const NodeRule* const> node_rules();

/// A soft condition on the node alone.
class NodePreference {
 public:
  virtual ~NodePreference() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::int64_t of(const PodRules& pod, const NodeView& node) const = 0;
  [[nodiscard]] virtual std::string concerns(const PodRules& pod) const = 0;
};

/// The sum of the weights of preferred node affinity that the node earns.
[[nodiscard]] const NodePreference& preferred_affinity();
/// How many taints with effect PreferNoSchedule the pod does not tolerate.
[[nodiscard]] const NodePreference& soft_taints();

}  // namespace qm::placement::rules
