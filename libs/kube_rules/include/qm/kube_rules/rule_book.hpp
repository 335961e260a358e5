#pragma once
#include "qm/kube_rules/node_set.hpp"
#include "qm/kube_rules/pod_rules.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::kube_rules {

/// Handle of a template in a RuleBook.
using TemplateId = std::uint32_t;

/// A pod that counts for the rules: bound (or planned), and not ended.
struct PodView {
  std::string uid;
  NodeName node;             ///< unknown node: the pod counts once the node is added
  TemplateId pods_like = 0;  ///< must be held while the pod is in the book
  bool terminating = false;  ///< does not count for topology spread
};

/// Score of a node for a template, from the soft rules alone. More is better.
struct Preference {
  NodeIndex node = 0;
  std::int64_t score = 0;
};

/// Evaluates which nodes admit a pod, by all Kubernetes scheduling rules, without a pass over the pods.
///
/// Sketch   The rules of a template are compiled once, and equal parts of different templates are stored
///          once. A node selector is the set of nodes that it admits. A pod selector with a topology key is a
///          count of matching pods by domain, and the set of nodes whose domain has any. A spread constraint
///          is one set of nodes for each count of their domain. A new or removed pod changes the counts whose
///          selectors match its labels, and in the sets only the nodes of one domain. A query is then a few
///          operations on sets of nodes.
/// Laws     Results depend only on the current nodes, namespaces, templates and pods, not on the order in
///          which they were added; only the indexes of nodes do. Tests compare them with an evaluation from
///          scratch.
/// Counts   Pods that have ended must be dropped. Pods on unknown nodes do not count.
/// Threads  one writer; queries may run on several threads while there is no write.
/// Cost     feasible: O(nodes / 64) words for each part of the template. put_pod, drop_pod: for each selector
///          that matches the pod, the nodes of one domain; and one step for each distinct list of requests. A
///          new template: O(nodes) for each new part, and for new selectors each distinct set of labels with
///          its nodes. rule_book_bench.cpp.
/// Source   the filters and scores of kube-scheduler 1.36.
class RuleBook {
 public:
  RuleBook();
  ~RuleBook();
  RuleBook(RuleBook&&) noexcept;
  RuleBook& operator=(RuleBook&&) noexcept;

  /// Adds or updates a node; an unchanged view costs nothing.
  void put_node(const NodeView& node);
  void drop_node(const NodeName& name);
  /// Sets the labels of a namespace; an unknown namespace has none.
  void put_namespace(const Namespace& ns, const Labels& labels);
  void drop_namespace(const Namespace& ns);

  /// Indexes the values of this node label permanently, for later templates that use it. Otherwise the first
  /// such template reads all nodes, and the index is dropped with the last one.
  void keep(const std::string& label);
  /// The same for the topology keys of the inter-pod rules. At most 16 labels are kept in all.
  void keep(const PodTemplate& pods);

  /// Returns the handle of a template and adds a reference. Equal templates have one handle.
  TemplateId hold(const PodTemplate& pods);
  /// Removes a reference; a template without references is deleted. Asserts that no pod uses it then.
  void release(TemplateId id);

  /// Adds or updates a pod by its uid. A pod holds a reference to its template.
  void put_pod(const PodView& pod);
  void drop_pod(const std::string& uid);

  /// The nodes that admit one more pod of the template.
  [[nodiscard]] NodeSet feasible(TemplateId id) const;
  /// The nodes that this rule alone admits, named as in rule_names().
  [[nodiscard]] NodeSet admitted(TemplateId id, std::string_view rule) const;
  /// The first rule that rejects the pod, in the order of rule_names(); none if the node admits it. Asserts
  /// that the node exists.
  [[nodiscard]] std::optional<Rejection> why_not(TemplateId id, NodeIndex node) const;
  /// The same for every node, by its index; empty text if the node admits the pod or does not exist.
  [[nodiscard]] std::vector<std::string> why_not(TemplateId id) const;
  /// Number of rejected nodes by reason: {"without label pool=gpu": 3}.
  [[nodiscard]] std::map<std::string, std::int64_t> explain(TemplateId id) const;
  /// Whether the anti-affinity of an existing pod excludes pods of the template from a node.
  [[nodiscard]] bool repelled(TemplateId id) const;
  /// Scores of these nodes by the soft rules: a sum with the scheduler's weights. Each score is 0 to 100. Preferred node
  /// affinity counts twice, soft taints three times, preferred pod affinity and soft topology spread twice. In the
  /// order of the indexes.
  [[nodiscard]] std::vector<Preference> preferences(TemplateId id, const NodeSet& among) const;

  /// True: the soft rules give all nodes equal scores now. May be false for equal scores, too. O(parts of the
  /// template).
  [[nodiscard]] bool indifferent(TemplateId id) const;

  [[nodiscard]] const NodeSet& nodes() const;
  [[nodiscard]] std::optional<NodeIndex> index_of(const NodeName& name) const;
  [[nodiscard]] const NodeName& name_of(NodeIndex node) const;

  /// Numbers of stored objects, for metrics and for tests against leaks.
  struct Sizes {
    std::size_t nodes = 0, pods = 0, templates = 0, label_sets = 0, selectors = 0, tallies = 0, spreads = 0, keys = 0;
    friend auto operator<=>(const Sizes&, const Sizes&) = default;
  };
  [[nodiscard]] Sizes sizes() const;

  class State;

 private:
  std::unique_ptr<State> state_;
};

/// The hard rules by name, in the order of evaluation.
[[nodiscard]] const std::vector<std::string_view>& rule_names();

}  // namespace qm::kube_rules
