#pragma once
#include "qm/admission/exact/victims.hpp"

#include <map>
#include <set>
#include <vector>

namespace qm::admission::exact {

/// Queues in the order in which they have to give to a workload of one queue: from the root down, each time the child with the
/// highest share, of equal ones the cohort. Who does not borrow need not give, and is not asked again.
/// Source   Kueue, pkg/scheduler/preemption/fairsharing/ordering.go.
class Givers {
 public:
  /// `candidates` as they are to be taken, each queue's own in this order.
  Givers(const Field& field, Node queue, const std::vector<const Work*>& candidates);
  /// The next queue to give; -1 where there is none. The same again until something changes.
  [[nodiscard]] Node next();
  [[nodiscard]] bool has(Node queue) const;
  const Work* pop(Node queue);
  void drop(Node queue) { done_.insert(queue); }

  /// Of the two queues' ways up, the nodes right below the cohort where they meet.
  struct Meeting {
    Node taker, giver;
  };
  [[nodiscard]] Meeting meeting(Node giver) const;

 private:
  [[nodiscard]] Node below(Node cohort);

  const Tree& tree_;
  Node queue_;
  std::map<Node, std::vector<const Work*>> left_;  ///< last is next
  std::set<Node> ancestors_, done_;
};

}  // namespace qm::admission::exact
