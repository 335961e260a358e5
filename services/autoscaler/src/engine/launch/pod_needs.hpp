#pragma once
#include "qm/autoscaler/requirements/requirement.hpp"
#include "qm/kube_rules/pod_rules.hpp"

#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace qm::autoscaler {

/// What pods of one template need of a new node, in addition to the amounts of their shape.
///
/// Preferred terms, topology spread and affinity to other pods are not considered: placement enforces them.
struct PodNeeds {
  Requirements selector;
  std::vector<Requirements> terms;  ///< of the required node affinity; one must match, without any all do
  bool impossible = false;          ///< no term can match a new node
  /// Required anti-affinity by host, with the pods' own namespace and labels.
  Namespace ns;
  Labels labels;
  std::vector<kube_rules::PodTerm> apart;

  /// Whether pods of both may not be on one node.
  [[nodiscard]] bool excludes(const PodNeeds& other) const;
};

/// The expression of a node affinity as one of a NodePool.
[[nodiscard]] Expression expression_of(const kube_rules::Requirement& from);

/// The needs of pod sets, read once for each text of rules and each node selector.
///
/// Threads  one.
/// Bounds   10,000 templates; then it starts again, so a reference is valid until the next engine step.
class NeedsBook {
 public:
  const PodNeeds& of(const PodSet& set);
  /// Starts again if it is full; between steps.
  void trim();

 private:
  struct Key {
    std::string rules;
    Labels selector;
  };
  /// The same without copies.
  struct View {
    const std::string& rules;
    const Labels& selector;
  };
  struct Less {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return std::tie(a.rules, a.selector) < std::tie(b.rules, b.selector);
    }
  };
  std::map<Key, PodNeeds, Less> known_;
};

}  // namespace qm::autoscaler
