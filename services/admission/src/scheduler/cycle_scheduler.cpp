#include "scheduler/cycle_scheduler.hpp"

#include <algorithm>
#include <iterator>

namespace qm::admission {

void CycleScheduler::finish(int id) {
  leaving_.erase(id);
  tree_.finish(id);
  tree_.requeue();
}

void CycleScheduler::leave(int id) {
  leaving_.insert(id);
  tree_.leave(id);
}

void CycleScheduler::evicted(int id) {
  leaving_.erase(id);
  tree_.evicted(id);
  tree_.requeue();
}

void CycleScheduler::resize(int id, kueue::Amounts usage) {
  tree_.shrink(id, std::move(usage));
  tree_.requeue();
}

kueue::Outcome CycleScheduler::run(std::int64_t now) {
  kueue::Outcome out;
  // A cycle without admission, preemption or change of the active workloads would repeat forever.
  for (std::size_t waiting = tree_.active_works(); waiting > 0;) {
    auto one = tree_.run(++cycle_, now);
    // A workload that waits for its victims reports them in each cycle.
    std::erase_if(one.preempted, [&](const kueue::Preempted& p) { return !leaving_.insert(p.id).second; });
    const bool decided = !one.admitted.empty() || !one.preempted.empty();
    std::ranges::move(one.admitted, std::back_inserter(out.admitted));
    std::ranges::move(one.preempted, std::back_inserter(out.preempted));
    out.waiting = std::move(one.waiting);
    const auto left = tree_.active_works();
    if (!decided && left == waiting) break;
    waiting = left;
  }
  return out;
}

}  // namespace qm::admission
