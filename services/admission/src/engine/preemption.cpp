// Classic preemption: take candidates in order until the workload fits, then spare again whom it fits without.
#include "qm/admission/policy.hpp"

#include <algorithm>
#include <tuple>

namespace qm::admission {
namespace {

bool may_displace(PreemptPolicy policy, const Workload& preemptor, const Workload& candidate) {
  switch (policy) {
    case PreemptPolicy::kNever:
      return false;
    case PreemptPolicy::kAny:
      return true;
    case PreemptPolicy::kLowerPriority:
      return candidate.spec.priority < preemptor.spec.priority;
    case PreemptPolicy::kLowerOrNewerEqualPriority:
      return candidate.spec.priority < preemptor.spec.priority || (candidate.spec.priority == preemptor.spec.priority &&
                                                                   candidate.spec.submitted > preemptor.spec.submitted);
  }
  return false;
}

bool touches(const Workload& w, const Usage& contested) {
  return std::any_of(contested.begin(), contested.end(),
                     [&](const auto& entry) { return w.usage.contains(entry.first); });
}

}  // namespace

ClassicPreemption::Plan ClassicPreemption::plan(const ClusterQueue& queue, const Workload& preemptor,
                                                const Usage& usage, const std::vector<Holder>& holders) const {
  Plan plan;
  std::vector<const Holder*> removed;
  // What is already being evicted comes free without anything new.
  for (const auto& holder : holders) {
    if (holder.workload->phase != Phase::kEvicting) continue;
    tree.remove(holder.queue, holder.workload->usage);
    removed.push_back(&holder);
  }
  Usage contested;
  for (const auto& [at, amount] : usage) {
    if (amount > tree.available(queue.name, at)) contested.emplace(at, amount);
  }
  plan.possible = contested.empty();

  std::vector<const Holder*> candidates;
  for (const auto& holder : holders) {
    const Workload& w = *holder.workload;
    if (w.phase == Phase::kEvicting || !touches(w, contested)) continue;
    const bool own = holder.queue == queue.name;
    if (may_displace(own ? queue.within_cluster_queue : queue.reclaim_within_cohort, preemptor, w)) {
      candidates.push_back(&holder);
    }
  }
  const auto order = [&](const Holder* h) {
    return std::tuple(h->queue == queue.name, h->workload->spec.priority, -micros(h->workload->quota_reserved),
                      h->workload->spec.uid);
  };
  std::sort(candidates.begin(), candidates.end(),
            [&](const Holder* a, const Holder* b) { return order(a) < order(b); });

  std::vector<const Holder*> victims;
  for (const auto* candidate : candidates) {
    if (plan.possible) break;
    if (candidate->queue != queue.name) {
      // Only what is lent comes back, and only up to this queue's own nominal quota.
      if (!tree.borrows(candidate->queue, contested) || tree.borrows_with(queue.name, contested)) continue;
    }
    tree.remove(candidate->queue, candidate->workload->usage);
    victims.push_back(candidate);
    plan.possible = tree.fits(queue.name, usage);
  }
  if (plan.possible && victims.size() > 1) {
    const auto still_legal = [&] {
      // A spared victim of the own queue may leave it borrowing, and a borrower may not reclaim.
      const bool reclaims =
          std::any_of(victims.begin(), victims.end(), [&](const Holder* v) { return v->queue != queue.name; });
      return tree.fits(queue.name, usage) && !(reclaims && tree.borrows_with(queue.name, contested));
    };
    for (std::size_t i = victims.size() - 1; i-- > 0;) {
      tree.add(victims[i]->queue, victims[i]->workload->usage);
      if (still_legal()) {
        victims.erase(victims.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        tree.remove(victims[i]->queue, victims[i]->workload->usage);
      }
    }
  }
  for (const auto* victim : victims) tree.add(victim->queue, victim->workload->usage);
  for (const auto* holder : removed) tree.add(holder->queue, holder->workload->usage);
  if (!plan.possible) return plan;
  for (const auto* victim : victims) {
    plan.victims.push_back(victim->workload->spec.uid);
    plan.reasons[victim->workload->spec.uid] = victim->queue == queue.name ? "InClusterQueue" : "InCohortReclamation";
  }
  return plan;
}

}  // namespace qm::admission
