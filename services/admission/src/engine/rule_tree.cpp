#include "rule_tree.hpp"

#include <algorithm>
#include <iterator>

namespace qm::admission {

exact::Outcome Decisions::Cycling::run(std::int64_t now) {
  exact::Outcome out;
  // A cycle in which nobody was admitted, nobody displaced and nobody given up would be followed by the same again.
  for (std::size_t waiting = tree_.active_works(); waiting > 0;) {
    auto one = tree_.run(++cycle_, now);
    // Who waits for its victims names them in each cycle anew.
    std::erase_if(one.preempted, [&](const exact::Preempted& p) { return !leaving_.insert(p.id).second; });
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
