// Applies the decisions for one quota tree to rows, events and intents.
#include "update.hpp"

namespace qm::admission {

void Engine::schedule(int tree) {
  show_usage(tree);
  scale_up_tree(tree, true);
  const auto made = indexes_.decisions.decide(tree, now_);
  // A claim does not change the phase: it has no event, and the indexes have it already.
  for (const auto& uid : made.unclaimed) tables_.workloads.edit(uid).claim.reset();
  for (const auto& [uid, claim] : made.claimed) tables_.workloads.edit(uid).claim = claim;
  // A workload may be admitted and preempted in the same run, so victims are evicted last.
  for (const auto& [uid, assignment] : made.admitted) {
    const auto& claim = tables_.workloads.find(uid)->claim;
    const auto given = claim ? Assignment{claim->flavors, claim->usage, claim->counts} : assignment;
    if (reserve_holds(uid, given)) reserve(uid, given);
  }
  for (const auto& [victim, by, reason] : made.displaced) {
    const Workload& w = *tables_.workloads.find(by);
    evict(victim, "Preempted", fmt::format("{} by {}/{} in {}", reason, w.spec.ns, w.spec.name, w.cluster_queue),
          now_ + options_.eviction_grace);
  }
  scale_up_tree(tree, false);
}

/// A workload arrived or ended: earlier preemptions may no longer bind.
void Engine::release_old_preemptions(const QueueName& queue) {
  indexes_.decisions.release_old_preemptions(queue, now_);
}

}  // namespace qm::admission
