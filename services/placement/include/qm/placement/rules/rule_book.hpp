#pragma once
#include "qm/placement/rules/node_set.hpp"
#include "qm/placement/rules/pod_rules.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::placement::rules {

/// Handle of a template in a RuleBook.
using TemplateId = std::uint32_t;

/// A pod that takes part: bound (or meant to be), and not ended.
struct PodView {
  std::string uid;
  NodeName node;             ///< may not be known yet: the pod counts from when it is
  TemplateId pods_like = 0;  ///< must be held while the pod is there
  bool terminating = false;  ///< counts everywhere but for spread
};

/// A node's worth to a template, from the soft rules alone. More is better.
struct Preference {
  NodeIndex node = 0;
  std::int64_t score = 0;
};

/// Answers which nodes can take a pod, by every rule that Kubernetes has, without looking at the pods one by one.
///
/// Sketch   What pods of one template ask is compiled once, and equal parts of different templates are kept once: a
///          selector of nodes is the set of nodes that it admits; a selector of pods with a topology key is a tally of
///          matching pods by domain and the set of nodes whose domain has any; a spread constraint is the sets of nodes
///          whose domain has so many. A pod that comes or goes changes the tallies whose selectors match its labels, and
///          of the sets only the nodes of one domain. A question is then a few operations on sets of nodes.
/// Laws     The answers follow from the nodes, namespaces, templates and pods that are there, not from the order in which
///          they came; only the indexes of nodes do. Tests compare it with an evaluation from scratch.
/// Counts   Pods that have ended are nobody here: drop them. Pods on nodes that are not known count nowhere.
/// Threads  one writer; questions may be asked from several threads while nobody writes.
/// Cost     feasible: O(nodes / 64) words for each part of the template. put_pod, drop_pod: for each selector that
///          matches the pod, the nodes of one domain; and one step for each distinct list of requests. A new template:
///          O(nodes) for each part that is new, and for new selectors each distinct set of labels with its nodes.
///          rule_book_bench.cpp.
/// Source   the filters and scores of kube-scheduler 1.36.
class RuleBook {
 public:
  RuleBook();
  ~RuleBook();
  RuleBook(RuleBook&&) noexcept;
  RuleBook& operator=(RuleBook&&) noexcept;

  /// A node as it is now; the same view again costs nothing.
  void put_node(const NodeView& node);
  void drop_node(const NodeName& name);
  /// The labels of a namespace; one that was never told of has none.
  void put_namespace(const Namespace& ns, const Labels& labels);
  void drop_namespace(const Namespace& ns);

  /// The values of this label of nodes are kept from now on, so that a template that asks for them finds them: else the first such looks at all
  /// nodes, and with the last they are forgotten.
  void keep(const std::string& label);
  /// Likewise those that its rules between pods name, as long as there are not many.
  void keep(const PodTemplate& pods);

  /// The handle of a template, with one more holder. Equal templates have one handle.
  TemplateId hold(const PodTemplate& pods);
  /// One holder less; a template without holders is forgotten. Asserts that no pod is like it then.
  void release(TemplateId id);

  /// A pod as it is now, known by its uid. A pod is one more holder of its template.
  void put_pod(const PodView& pod);
  void drop_pod(const std::string& uid);

  /// The nodes that admit one more pod like these now.
  [[nodiscard]] NodeSet feasible(TemplateId id) const;
  /// The nodes that admit one by this rule alone, named as in rule_names(), whatever the others say.
  [[nodiscard]] NodeSet admitted(TemplateId id, std::string_view rule) const;
  /// The first rule in the way, in the order of rule_names(); none where the node takes the pod. kNotFound nodes do not
  /// exist here: asserts that the node is there.
  [[nodiscard]] std::optional<Rejection> why_not(TemplateId id, NodeIndex node) const;
  /// The same of every node, by its index; empty words where the node takes the pod, or is not there.
  [[nodiscard]] std::vector<std::string> why_not(TemplateId id) const;
  /// How many nodes each reason keeps away: {"without label pool=gpu": 3}.
  [[nodiscard]] std::map<std::string, std::int64_t> explain(TemplateId id) const;
  /// Whether the anti-affinity of some pod that is there keeps pods like these off some node.
  [[nodiscard]] bool kept_away(TemplateId id) const;
  /// What the soft rules make of these nodes: the sum of scores of 0 to 100 for preferred node affinity (twice), soft
  /// taints (three times), preferred pod affinity (twice) and spread that may be broken (twice), as the scheduler weighs
  /// them. In order of the indexes.
  [[nodiscard]] std::vector<Preference> preferences(TemplateId id, const NodeSet& among) const;

  /// Where it says yes, the soft rules make the same of all nodes now. It may say no where they do, too. O(parts of the template).
  [[nodiscard]] bool indifferent(TemplateId id) const;

  [[nodiscard]] const NodeSet& nodes() const;
  [[nodiscard]] std::optional<NodeIndex> index_of(const NodeName& name) const;
  [[nodiscard]] const NodeName& name_of(NodeIndex node) const;

  /// How much is kept, for metrics and for tests that nothing is kept for ever.
  struct Sizes {
    std::size_t nodes = 0, pods = 0, templates = 0, label_sets = 0, selectors = 0, tallies = 0, spreads = 0, keys = 0;
    friend auto operator<=>(const Sizes&, const Sizes&) = default;
  };
  [[nodiscard]] Sizes sizes() const;

  class State;

 private:
  std::unique_ptr<State> state_;
};

/// The hard rules by name, in the order in which they are asked.
[[nodiscard]] const std::vector<std::string_view>& rule_names();

}  // namespace qm::placement::rules
