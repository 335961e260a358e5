// One quota tree: what its rules decided becomes rows, events and orders.
#include "update.hpp"

namespace qm::admission {

void Engine::schedule(int tree) {
  show_usage(tree);
  grow_in(tree, true);
  const auto made = indexes_.decisions.decide(tree, now_);
  // A claim is no change of phase: no event tells of it, and the indexes know it already.
  for (const auto& uid : made.unclaimed) tables_.workloads.edit(uid).claim.reset();
  for (const auto& [uid, claim] : made.claimed) tables_.workloads.edit(uid).claim = claim;
  // One may be let in and displaced in the same go, so whoever gives way is told last.
  for (const auto& [uid, assignment] : made.admitted) {
    const auto& claim = tables_.workloads.find(uid)->claim;
    const auto given = claim ? Assignment{claim->flavors, claim->usage, claim->counts} : assignment;
    if (take_holds(uid, given)) reserve(uid, given);
  }
  for (const auto& [victim, by, reason] : made.displaced) {
    const Workload& w = *tables_.workloads.find(by);
    evict(victim, "Preempted", fmt::format("{} by {}/{} in {}", reason, w.spec.ns, w.spec.name, w.cluster_queue),
          now_ + options_.eviction_grace);
  }
  grow_in(tree, false);
}

/// Something came from outside, or went: old displacements bind nobody any more.
void Engine::stir(const QueueName& queue) { indexes_.decisions.stir(queue, now_); }

}  // namespace qm::admission
