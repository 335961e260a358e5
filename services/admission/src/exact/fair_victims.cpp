// Preemption by shares. The workload counts as admitted while shares are compared; the giver is found from the root down,
// each time the child with the highest share; and what is compared are the two children of the cohort where the ways of
// taker and giver meet.
#include "qm/admission/exact/givers.hpp"
#include "qm/admission/exact/victims.hpp"

#include <algorithm>

namespace qm::admission::exact {

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
  Givers givers(field_, own, candidates);
  const bool within_nominal =
      std::ranges::all_of(contest.contested, [&](Cell c) { return !field_.tree.borrows_with(own, c, 0); });
  const auto take = [&](const Work* work, Reason reason) {
    victims_.take(*work);
    targets.push_back({work, reason});
    return fits(contest);
  };
  for (Node queue = givers.next(); queue >= 0; queue = givers.next()) {
    if (queue == own || within_nominal) {
      if (take(givers.pop(queue), queue == own ? Reason::kInClusterQueue : Reason::kInCohortReclamation)) return true;
      continue;
    }
    const auto meeting = givers.meeting(queue);
    const auto taker = field_.tree.share(meeting.taker), giver = field_.tree.share(meeting.giver);
    while (givers.has(queue)) {
      const auto* work = givers.pop(queue);
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
  Givers givers(field_, contest.work.queue, retry);
  for (Node queue = givers.next(); queue >= 0; queue = givers.next()) {
    const auto meeting = givers.meeting(queue);
    if (Share::compare(field_.tree.share(meeting.taker), field_.tree.share(meeting.giver)) < 0) {
      const auto* work = givers.pop(queue);
      victims_.take(*work);
      targets.push_back({work, Reason::kInCohortFairSharing});
      if (fits(contest)) return true;
    }
    givers.drop(queue);
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
