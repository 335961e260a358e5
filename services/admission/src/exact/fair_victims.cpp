// Preemption by shares. The workload counts as admitted while shares are compared; the giver is found from the root down,
// each time the child with the highest share; and what is compared are the two children of the cohort where the ways of
// taker and giver meet.
#include "qm/admission/exact/victims.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace qm::admission::exact {

/// Queues in the order in which they have to give.
class FairVictims::Ordering {
 public:
  Ordering(const Field& field, const Contest& contest, const std::vector<const Work*>& candidates)
      : field_(field), tree_(field.tree), queue_(contest.work.queue) {
    for (const auto* work : candidates) left_[work->queue].push_back(work);
    for (auto& [queue, works] : left_) std::ranges::reverse(works);
    for (Node n = tree_.parent(queue_); n >= 0; n = tree_.parent(n)) ancestors_.insert(n);
  }

  /// The next queue to give; -1 where there is none.
  [[nodiscard]] Node next() {
    if (tree_.parent(queue_) < 0) return has(queue_) ? queue_ : -1;
    while (!done_.contains(0)) {
      if (const Node found = below(0); found >= 0) return found;
    }
    return -1;
  }
  [[nodiscard]] bool has(Node queue) const {
    const auto found = left_.find(queue);
    return found != left_.end() && !found->second.empty();
  }
  const Work* pop(Node queue) {
    const auto* out = left_.at(queue).back();
    left_.at(queue).pop_back();
    return out;
  }
  void drop(Node queue) { done_.insert(queue); }

  /// Of the two queues' ways up, the nodes right below the cohort where they meet.
  struct Meeting {
    Node taker, giver;
  };
  [[nodiscard]] Meeting meeting(Node giver) const {
    while (!ancestors_.contains(tree_.parent(giver))) giver = tree_.parent(giver);
    Node taker = queue_;
    while (tree_.parent(taker) != tree_.parent(giver)) taker = tree_.parent(taker);
    return {taker, giver};
  }

 private:
  Node below(Node cohort) {
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
    if (best_cohort >= 0 && (best_queue < 0 || Share::compare(cohort_share, queue_share) >= 0))
      return below(best_cohort);
    return best_queue;
  }

  const Field& field_;
  const Tree& tree_;
  Node queue_;
  std::map<Node, std::vector<const Work*>> left_;  ///< last is next
  std::set<Node> ancestors_, done_;
};

std::vector<const Work*> FairVictims::candidates(const Contest& contest) const {
  const Node own = contest.work.queue;
  const auto& rules = field_.rules[static_cast<std::size_t>(own)];
  std::vector<const Work*> out;
  const auto contested = [&](const Work& work) {
    return std::ranges::any_of(work.usage,
                               [&](const Amount& a) { return std::ranges::binary_search(contest.contested, a.at); });
  };
  for (Node queue = 0; queue < field_.tree.size(); ++queue) {
    if (!field_.tree.is_queue(queue)) continue;
    const auto policy = queue == own ? rules.within_cluster_queue : rules.reclaim_within_cohort;
    if (policy == PreemptPolicy::kNever) continue;
    const bool gives = queue == own || std::ranges::any_of(contest.contested, [&](Cell c) {
                         return field_.tree.borrows_with(queue, c, 0);
                       });
    if (!gives) continue;
    for (const auto* work : field_.holders[static_cast<std::size_t>(queue)]) {
      if (Victims::allowed(policy, contest.work, *work) && contested(*work)) out.push_back(work);
    }
  }
  std::ranges::sort(out, [&](const Work* a, const Work* b) { return Victims::sooner(*a, *b, own); });
  return out;
}

/// Its usage is in the tree while shares are compared; for this question it is not.
bool FairVictims::fits(const Contest& contest) {
  field_.tree.remove(contest.work.queue, contest.usage);
  const bool out = victims_.fits(contest, true);
  field_.tree.add(contest.work.queue, contest.usage);
  return out;
}

bool FairVictims::first(const Contest& contest, std::vector<const Work*> candidates, std::vector<Target>& targets,
                        std::vector<const Work*>& retry) {
  const Node own = contest.work.queue;
  Ordering ordering(field_, contest, candidates);
  const bool within_nominal =
      std::ranges::all_of(contest.contested, [&](Cell c) { return !field_.tree.borrows_with(own, c, 0); });
  const auto take = [&](const Work* work, Reason reason) {
    victims_.take(*work);
    targets.push_back({work, reason});
    return fits(contest);
  };
  for (Node queue = ordering.next(); queue >= 0; queue = ordering.next()) {
    if (queue == own || within_nominal) {
      if (take(ordering.pop(queue), queue == own ? Reason::kInClusterQueue : Reason::kInCohortReclamation)) return true;
      continue;
    }
    const auto meeting = ordering.meeting(queue);
    const auto taker = field_.tree.share(meeting.taker), giver = field_.tree.share(meeting.giver);
    while (ordering.has(queue)) {
      const auto* work = ordering.pop(queue);
      victims_.take(*work);
      const auto without = field_.tree.share(meeting.giver);
      victims_.put_back(*work);
      const bool may = field_.share_rules.front() == ShareRule::kLessThanOrEqualToFinalShare
                           ? Share::compare(taker, without) <= 0
                           : Share::compare(taker, giver) < 0;
      if (!may) {
        retry.push_back(work);
        continue;
      }
      if (take(work, Reason::kInCohortFairSharing)) return true;
      break;
    }
  }
  return false;
}

/// At most one more of each queue, by the weaker comparison.
bool FairVictims::second(const Contest& contest, std::vector<const Work*> retry, std::vector<Target>& targets) {
  Ordering ordering(field_, contest, retry);
  for (Node queue = ordering.next(); queue >= 0; queue = ordering.next()) {
    const auto meeting = ordering.meeting(queue);
    if (Share::compare(field_.tree.share(meeting.taker), field_.tree.share(meeting.giver)) < 0) {
      const auto* work = ordering.pop(queue);
      victims_.take(*work);
      targets.push_back({work, Reason::kInCohortFairSharing});
      if (fits(contest)) return true;
    }
    ordering.drop(queue);
  }
  return false;
}

std::vector<Target> FairVictims::find(const Contest& contest) {
  auto sorted = candidates(contest);
  if (sorted.empty()) return {};
  std::vector<Target> targets;
  std::vector<const Work*> retry;
  field_.tree.add(contest.work.queue, contest.usage);
  bool enough = first(contest, std::move(sorted), targets, retry);
  if (!enough && field_.share_rules.size() > 1) enough = second(contest, std::move(retry), targets);
  field_.tree.remove(contest.work.queue, contest.usage);
  if (enough) victims_.give_back(contest, targets, true);
  for (const auto& target : targets) victims_.put_back(*target.work);
  if (!enough) targets.clear();
  return targets;
}

}  // namespace qm::admission::exact
