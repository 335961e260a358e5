// The order of queues with victims in fair sharing.
#include "qm/admission/kueue/reclaim_candidates.hpp"

#include <algorithm>

namespace qm::admission::kueue {

ReclaimCandidates::ReclaimCandidates(const QuotaState& field, Node queue, const std::vector<const Work*>& candidates)
    : tree_(field.tree), queue_(queue) {
  for (const auto* work : candidates) left_[work->queue].push_back(work);
  for (auto& [node, works] : left_) std::ranges::reverse(works);
  for (Node n = tree_.parent(queue_); n >= 0; n = tree_.parent(n)) ancestors_.insert(n);
}

Node ReclaimCandidates::next() {
  if (tree_.parent(queue_) < 0) return has(queue_) && !done_.contains(queue_) ? queue_ : -1;
  while (!done_.contains(0)) {
    if (const Node found = below(0); found >= 0) return found;
  }
  return -1;
}

bool ReclaimCandidates::has(Node queue) const {
  const auto found = left_.find(queue);
  return found != left_.end() && !found->second.empty();
}

const Work* ReclaimCandidates::pop(Node queue) {
  const auto* out = left_.at(queue).back();
  left_.at(queue).pop_back();
  return out;
}

ReclaimCandidates::Meeting ReclaimCandidates::meeting(Node candidate_node) const {
  while (!ancestors_.contains(tree_.parent(candidate_node))) candidate_node = tree_.parent(candidate_node);
  Node taker = queue_;
  while (tree_.parent(taker) != tree_.parent(candidate_node)) taker = tree_.parent(taker);
  return {taker, candidate_node};
}

Node ReclaimCandidates::below(Node cohort) {
  Node best_queue = -1, best_cohort = -1;
  Share queue_share, cohort_share;
  for (const Node child : tree_.children(cohort)) {
    if (done_.contains(child)) continue;
    const auto share = tree_.share(child);
    if (tree_.is_queue(child)) {
      if ((!share.borrowing && child != queue_) || !has(child)) {
        done_.insert(child);
        continue;
      }
      const int by = best_queue < 0 ? 1 : Share::compare(share, queue_share);
      if (by > 0 || (by == 0 && Victims::sooner(*left_.at(child).back(), *left_.at(best_queue).back(), queue_))) {
        best_queue = child;
        queue_share = share;
      }
    } else if (!share.borrowing && !ancestors_.contains(child)) {
      done_.insert(child);
    } else if (best_cohort < 0 || Share::compare(share, cohort_share) >= 0) {
      best_cohort = child;
      cohort_share = share;
    }
  }
  if (best_queue < 0 && best_cohort < 0) {
    done_.insert(cohort);
    return -1;
  }
  if (best_cohort >= 0 && (best_queue < 0 || Share::compare(cohort_share, queue_share) >= 0)) return below(best_cohort);
  return best_queue;
}

}  // namespace qm::admission::kueue
