#pragma once
#include "qm/admission/kueue/victims.hpp"

#include <map>
#include <set>
#include <vector>

namespace qm::admission::kueue {

/// Order of the queues from which fair sharing takes victims for a workload of one queue: from the root down, each
/// time the child with the highest share; ties: the cohort. A queue that does not borrow has no victims, and is not
/// considered again.
/// Source   Kueue, pkg/scheduler/preemption/fairsharing/ordering.go.
class ReclaimCandidates {
 public:
  /// `candidates` in the order in which they are to be taken within each queue.
  ReclaimCandidates(const QuotaState& field, Node queue, const std::vector<const Work*>& candidates);
  /// The next queue to take a victim from; -1 if there is none. The same until something changes.
  [[nodiscard]] Node next();
  [[nodiscard]] bool has(Node queue) const;
  const Work* pop(Node queue);
  void drop(Node queue) { done_.insert(queue); }

  /// The two nodes right below the lowest common cohort of both queues.
  struct Meeting {
    Node taker, candidate_node;
  };
  [[nodiscard]] Meeting meeting(Node candidate_node) const;

 private:
  [[nodiscard]] Node below(Node cohort);

  const Tree& tree_;
  Node queue_;
  std::map<Node, std::vector<const Work*>> left_;  ///< last is next
  std::set<Node> ancestors_, done_;
};

}  // namespace qm::admission::kueue
