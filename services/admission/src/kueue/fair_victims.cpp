// Preemption by shares. The workload counts as admitted while shares are compared. The queue of the next victim is
// found from the root down, each time the child with the highest share. The compared nodes are the two children of
// the lowest common cohort of preemptor and victim.
#include "qm/admission/kueue/cheapest.hpp"
#include "qm/admission/kueue/reclaim_candidates.hpp"
#include "qm/admission/kueue/victims.hpp"

#include <algorithm>

namespace qm::admission::kueue {

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
      if (!Victims::allowed(policy, contest.work, *work) || !contested(*work)) continue;
      if (victims_.may_be_preempted(*work)) out.push_back(work);
    }
  }
  std::ranges::sort(out, [&](const Work* a, const Work* b) { return Victims::sooner(*a, *b, own); });
  return out;
}

/// Its usage is in the tree while shares are compared; it is removed for this check.
bool FairVictims::fits(const Contest& contest) {
  field_.tree.remove(contest.work.queue, contest.usage);
  const bool out = victims_.fits(contest, true);
  field_.tree.add(contest.work.queue, contest.usage);
  return out;
}

bool FairVictims::may_take(const Share& taker, const Share& candidate_node, Node candidate_side, const Work& work,
                           ShareRule rule) {
  if (rule == ShareRule::kLessThanInitialShare) return Share::compare(taker, candidate_node) < 0;
  field_.tree.remove(work.queue, work.usage);
  const auto without = field_.tree.share(candidate_side);
  field_.tree.add(work.queue, work.usage);
  return Share::compare(taker, without) <= 0;
}

bool FairVictims::first(const Contest& contest, std::vector<const Work*> candidates, std::vector<Target>& targets,
                        std::vector<const Work*>& retry) {
  const Node own = contest.work.queue;
  ReclaimCandidates reclaim_candidates(field_, own, candidates);
  const bool within_nominal = field_.within_nominal_takes && std::ranges::all_of(contest.contested, [&](Cell c) {
                                return !field_.tree.borrows_with(own, c, 0);
                              });
  const auto rule = field_.share_rules.front();
  const auto take = [&](const Work* work, Reason reason) {
    victims_.take(*work);
    targets.push_back({work, reason});
    if (reason == Reason::kInCohortFairSharing) targets.back().rule = rule;
    return fits(contest);
  };
  for (Node queue = reclaim_candidates.next(); queue >= 0; queue = reclaim_candidates.next()) {
    if (queue == own || within_nominal) {
      if (take(reclaim_candidates.pop(queue), queue == own ? Reason::kInClusterQueue : Reason::kInCohortReclamation))
        return true;
      continue;
    }
    const auto meeting = reclaim_candidates.meeting(queue);
    const auto taker = field_.tree.share(meeting.taker), candidate_node = field_.tree.share(meeting.candidate_node);
    while (reclaim_candidates.has(queue)) {
      const auto* work = reclaim_candidates.pop(queue);
      if (!may_take(taker, candidate_node, meeting.candidate_node, *work, rule)) {
        retry.push_back(work);
        continue;
      }
      if (take(work, Reason::kInCohortFairSharing)) return true;
      break;
    }
  }
  return false;
}

/// At most one more victim of each queue, by the weaker comparison.
bool FairVictims::second(const Contest& contest, std::vector<const Work*> retry, std::vector<Target>& targets) {
  ReclaimCandidates reclaim_candidates(field_, contest.work.queue, retry);
  for (Node queue = reclaim_candidates.next(); queue >= 0; queue = reclaim_candidates.next()) {
    const auto meeting = reclaim_candidates.meeting(queue);
    if (Share::compare(field_.tree.share(meeting.taker), field_.tree.share(meeting.candidate_node)) < 0) {
      const auto* work = reclaim_candidates.pop(queue);
      victims_.take(*work);
      targets.push_back({work, Reason::kInCohortFairSharing, ShareRule::kLessThanInitialShare});
      if (fits(contest)) return true;
    }
    reclaim_candidates.drop(queue);
  }
  return false;
}

/// A victim that is given back in the preemptor's part of the tree raises the preemptor's share, so that later
/// victims may no longer be allowed (Kueue issue 14543). Giving back any other one only makes a queue give victims
/// sooner.
bool FairVictims::still_legal(const Contest& contest, const std::vector<Target>& targets, const Work& kept) {
  auto& tree = field_.tree;
  const Node own = contest.work.queue;
  const auto part = [&](Node n) {
    while (tree.parent(n) > 0) n = tree.parent(n);
    return n;
  };
  if (part(kept.queue) != part(own)) return true;
  const ReclaimCandidates reclaim_candidates(field_, own, {});
  tree.add(own, contest.usage);
  for (const auto& target : targets) tree.add(target.work->queue, target.work->usage);
  bool out = true;
  for (const auto& target : targets) {
    if (target.rule) {
      const auto [taker, candidate_node] = reclaim_candidates.meeting(target.work->queue);
      out = out && may_take(tree.share(taker), tree.share(candidate_node), candidate_node, *target.work, *target.rule);
    }
    tree.remove(target.work->queue, target.work->usage);
  }
  tree.remove(own, contest.usage);
  return out;
}

Plan FairVictims::admit_by_share(const Contest& contest, const std::vector<const Work*>& candidates,
                                 const Spared& spared) {
  Plan out;
  std::vector<const Work*> left, retry;
  std::ranges::copy_if(candidates, std::back_inserter(left), [&](const Work* w) { return !spared.contains(w); });
  field_.tree.add(contest.work.queue, contest.usage);
  out.enough = first(contest, left, out.targets, retry);
  if (!out.enough && field_.share_rules.size() > 1) out.enough = second(contest, retry, out.targets);
  field_.tree.remove(contest.work.queue, contest.usage);
  if (out.enough) {
    victims_.give_back(contest, out.targets, true, [&](const Work& kept) {
      return field_.preemptions == nullptr || still_legal(contest, out.targets, kept);
    });
  }
  for (const auto& target : out.targets) victims_.revert(*target.work);
  return out;
}

Plan FairVictims::find(const Contest& contest, int cheaper_plan_searches) {
  const auto sorted = candidates(contest);
  if (sorted.empty()) return {};
  auto plan = admit_by_share(contest, sorted, {});
  if (!plan.enough || cheaper_plan_searches == 0) return plan;
  return cheapest({field_, contest, sorted, cheaper_plan_searches}, std::move(plan),
                  [&](const Spared& spared) { return admit_by_share(contest, sorted, spared); })
      .plan;
}

}  // namespace qm::admission::kueue
