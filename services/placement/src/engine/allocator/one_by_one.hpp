#pragma once
#include "qm/placement/preference.hpp"

#include <cstdint>
#include <map>
#include <vector>

namespace qm::placement {

/// Chooses nodes for pods that are placed one by one, the best first: by the scores of the set's soft rules,
/// then nodes that the gang already uses, then by score, nodes with the set's data, and name.
///
/// Sketch   Every node is evaluated once and ranked by everything that pods on other nodes do not change. The
///          open nodes are a set of ranks. It is updated with the nodes whose admission by the inter-pod
///          rules has changed. Without soft rules the best is the first of that set, or a node that the gang
///          uses; with soft rules a pass over the open ones.
/// Laws     The result equals a pass over all nodes for each pod; a test compares them.
/// Cost     O(n log n) for n nodes at first; then O(n / 64) plus the changes, or O(n) if soft rules give
///          nodes different scores.
class OneByOne {
 public:
  /// `used`: current free capacity of nodes that the gang already uses. All must outlive it.
  OneByOne(const FreeCapacity& free_capacity, const std::map<NodeName, NodeCapacity>& used, std::size_t position,
           const PodSet& set, const Preference& preference, const InterPodConstraints& constraints);

  /// The node for the next pod; null if none fits.
  [[nodiscard]] const NodeName* next();
  /// Reports that the pod was placed there, with the node's free capacity afterwards.
  void taken(const NodeCapacity& now);

 private:
  using Place = std::uint32_t;
  static constexpr Place kNone = ~Place{0};
  struct Node {
    const NodeName* name = nullptr;
    rules::NodeIndex number = 0;
    std::int64_t score = 0;
    bool has_data = false;
    Place order = 0;  // by name
    [[nodiscard]] auto rank() const { return std::tuple(-score, !has_data, order); }
  };
  [[nodiscard]] std::optional<Node> look(const NodeName& name, const NodeCapacity& capacity);
  void follow();

  const PodSet& set_;
  const std::size_t position_;
  const InterPodConstraints& constraints_;
  const DynamicConstraints* const dynamic_;
  Scores scores_;
  std::vector<Node> fresh_;      // not used by the gang, best first
  std::vector<Place> place_of_;  // index in `fresh_`, by number
  rules::NodeSet left_;          // indexes of open, unused nodes
  rules::NodeSet seen_;          // open nodes at the last update
  std::vector<Node> used_;
  Node chosen_;
};

}  // namespace qm::placement
