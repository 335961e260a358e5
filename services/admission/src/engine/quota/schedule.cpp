#include "quota/schedule.hpp"

namespace qm::admission {
namespace {

constexpr int kPassesPerStep = 64;

}  // namespace

void Schedule::apply_aging() {
  const auto row = [&](const WorkloadUid& uid) -> const Workload& { return state_.workload(uid); };
  for (const int tree : state_.indexes.decisions.age(state_.now, row)) state_.step.dirty.insert(tree);
}

void Schedule::run_marked() {
  auto& dirty = state_.step.dirty;
  // A pass may requeue workloads and mark their tree again.
  for (int pass = 0; pass < kPassesPerStep && !dirty.empty(); ++pass) {
    const int tree = *dirty.begin();
    dirty.erase(dirty.begin());
    if (tree >= 0) run(tree);
    budgets_.review();
  }
}

void Schedule::run(int tree) {
  usage_.pass_to(tree);
  scale_up_.run(tree, true);
  const auto made = state_.indexes.decisions.decide(tree, state_.now);
  // A claim does not change the phase: it has no event, and the indexes have it already.
  for (const auto& uid : made.unclaimed) state_.tables.workloads.edit(uid).claim.reset();
  for (const auto& [uid, claim] : made.claimed) state_.tables.workloads.edit(uid).claim = claim;
  // A workload may be admitted and preempted in the same run, so victims are evicted last.
  for (const auto& [uid, assignment] : made.admitted) {
    const auto& claim = state_.tables.workloads.find(uid)->claim;
    const auto given = claim ? Assignment{claim->flavors, claim->usage, claim->counts, claim->nodes} : assignment;
    if (budgets_.reserve_holds(uid, given)) transitions_.reserve(uid, given);
  }
  for (const auto& [victim, by, reason] : made.displaced) {
    const Workload& w = state_.workload(by);
    transitions_.evict(victim, "Preempted",
                       fmt::format("{} by {}/{} in {}", reason, w.spec.ns, w.spec.name, w.cluster_queue),
                       state_.now + state_.options.eviction_grace);
  }
  scale_up_.run(tree, false);
}

}  // namespace qm::admission
