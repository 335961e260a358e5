#include "qm/admission/kueue/order.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace qm::admission::kueue {

bool goes_before(const Nominee& a, const Nominee& b, const OrderGates& gates) {
  const auto key = [&](const Nominee& n) {
    const auto priority = gates.priority_sorting ? -n.work.effective_priority() : 0;
    return std::tuple(gates.preemptors_first && !n.preemptor, n.borrowing, priority, n.work.created);
  };
  if (key(a) != key(b)) return key(a) < key(b);
  return a.work.uid < b.work.uid;
}

bool wins(const Contender& a, const Contender& b, const OrderGates& gates) {
  if (gates.preemptors_first && a.nominee.preemptor != b.nominee.preemptor) return a.nominee.preemptor;
  if (gates.non_borrowing_first && a.borrows_asked != b.borrows_asked) return b.borrows_asked;
  const int by_share = Share::compare(a.share, b.share);
  if (by_share != 0) return by_share < 0;
  const auto key = [](const Contender& s) {
    return std::tuple(-s.nominee.work.effective_priority(), s.nominee.work.created);
  };
  if (key(a) != key(b)) return key(a) < key(b);
  return a.nominee.work.uid < b.nominee.work.uid;
}

namespace {

std::size_t tournament(Tree& tree, const std::vector<Entrant>& entrants, const OrderGates& gates) {
  // By cohort and entrant: the state of the child of the cohort with the nominee.
  std::map<std::pair<Node, std::size_t>, Contender> at;
  std::map<Node, std::size_t> of_queue;
  for (std::size_t i = 0; i < entrants.size(); ++i) {
    const auto& [nominee, usage] = entrants[i];
    const Node queue = nominee.work.queue;
    of_queue[queue] = i;
    std::vector<Cell> asked;
    for (const auto& amount : usage) asked.push_back(amount.at);
    tree.add(queue, usage);
    for (Node n = queue; tree.parent(n) >= 0; n = tree.parent(n)) {
      at.emplace(std::pair(tree.parent(n), i), Contender{nominee, tree.beyond_own(n, asked), tree.share(n)});
    }
    tree.remove(queue, usage);
  }
  const auto winner = [&](const auto& self, Node cohort) -> std::optional<std::size_t> {
    std::optional<std::size_t> best;
    for (const bool queues : {false, true}) {
      for (const Node child : tree.children(cohort)) {
        if (tree.is_queue(child) != queues) continue;
        std::optional<std::size_t> one;
        if (!queues) {
          one = self(self, child);
        } else if (const auto found = of_queue.find(child); found != of_queue.end()) {
          one = found->second;
        }
        if (one && (!best || wins(at.at({cohort, *one}), at.at({cohort, *best}), gates))) best = one;
      }
    }
    return best;
  };
  return *winner(winner, 0);
}

}  // namespace

std::size_t first_of(Tree& tree, const std::vector<Entrant>& entrants, bool fair, const OrderGates& gates) {
  if (fair && tree.size() > 1) return tournament(tree, entrants, gates);
  const auto first = std::ranges::min_element(
      entrants, [&](const Entrant& a, const Entrant& b) { return goes_before(a.nominee, b.nominee, gates); });
  return static_cast<std::size_t>(first - entrants.begin());
}

Amounts reserved(const Tree& tree, Node queue, const Amounts& asked, Mode mode, int borrowing) {
  if (mode == Mode::kFit) return asked;
  Amounts out;
  for (const auto& [cell, amount] : asked) {
    const auto& quota = tree.quota(queue, cell);
    const auto used = tree.used(queue, cell);
    std::int64_t kept = amount;
    if (borrowing == 0) {
      kept = at_least_zero(std::min(amount, minus(quota.nominal, used)));
    } else if (quota.borrowing_limit) {
      kept = std::min(amount, minus(plus(quota.nominal, *quota.borrowing_limit), used));
    }
    out.push_back({cell, kept});
  }
  return out;
}

bool entry_counts(const QueueRules& rules, const Work& work) {
  return rules.by_usage && work.usage.empty() && work.reserved == 0;
}

bool outdated(const Scan& scan, int shape, std::int64_t cycle, std::int64_t generation, const OrderGates& gates) {
  if (gates.keeps_scan_progress) {
    if (scan.shape != shape && scan.shape >= 0 && shape >= 0) return true;
    if (scan.cycle >= cycle - 1) return false;
  }
  return generation > scan.generation;
}

}  // namespace qm::admission::kueue
