#pragma once
#include "qm/autoscaler/consolidate/problem.hpp"
#include "qm/kube_rules/rule_book.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::autoscaler::consolidate {

/// The nodes and pods of a problem in a rule book, for hypothetical changes.
///
/// Threads  one.
class Cluster {
 public:
  /// `without`: nodes that are being drained, by index.
  explicit Cluster(const Problem& problem, const std::vector<bool>& without = {});

  /// Drains the node: its pods are gone, and it takes none. It remains a domain of topology spread.
  void remove(std::size_t node);
  void restore(std::size_t node);
  /// The running node that takes one more such pod: the fullest one.
  [[nodiscard]] std::optional<std::size_t> place_for(std::size_t kind) const;
  [[nodiscard]] bool fits(std::size_t kind, const NodeName& node) const;
  void put(const std::string& pod, std::size_t kind, const NodeName& node);
  void drop(const std::string& pod) { book_.drop_pod(pod); }
  /// Nodes that do not run yet.
  void launch(const kube_rules::NodeView& node) { book_.put_node(node); }
  void end_launch(const NodeName& node) { book_.drop_node(node); }

 private:
  void index(std::size_t node);

  const Problem& problem_;
  kube_rules::RuleBook book_;
  std::vector<kube_rules::TemplateId> kinds_;
  std::vector<std::size_t> rank_;                    ///< of each node: the fullest first
  std::vector<std::optional<std::size_t>> node_at_;  ///< by index in the book
};

/// The share of the node that the pod requests, of the resource of which it requests most; 0 to 1.
[[nodiscard]] double share_of(const kube_rules::Amounts& requests, const kube_rules::Amounts& allocatable);
/// The node of a launch as the rules see it.
[[nodiscard]] kube_rules::NodeView view_of(const Pool& pool, const pack::InstanceType& type,
                                           const pack::NodeTerm& labels, std::string_view name);

}  // namespace qm::autoscaler::consolidate
