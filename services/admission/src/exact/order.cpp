#include "qm/admission/exact/order.hpp"

#include <tuple>

namespace qm::admission::exact {

bool goes_before(const Nominee& a, const Nominee& b, const OrderGates& gates) {
  const auto key = [&](const Nominee& n) {
    const auto priority = gates.priority_sorting ? -std::int64_t{n.work.priority} : 0;
    return std::tuple(gates.preemptors_first && !n.preemptor, n.borrowing, priority, n.work.created);
  };
  if (key(a) != key(b)) return key(a) < key(b);
  return a.work.uid < b.work.uid;
}

bool wins(const Standing& a, const Standing& b, const OrderGates& gates) {
  if (gates.preemptors_first && a.nominee.preemptor != b.nominee.preemptor) return a.nominee.preemptor;
  if (a.borrows_asked != b.borrows_asked) return b.borrows_asked;
  const int by_share = Share::compare(a.share, b.share);
  if (by_share != 0) return by_share < 0;
  const auto key = [](const Standing& s) {
    return std::tuple(-std::int64_t{s.nominee.work.priority}, s.nominee.work.created);
  };
  if (key(a) != key(b)) return key(a) < key(b);
  return a.nominee.work.uid < b.nominee.work.uid;
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

bool outdated(const Scan& scan, int shape, std::int64_t cycle, std::int64_t generation, const OrderGates& gates) {
  if (gates.keeps_scan_progress) {
    if (scan.shape != shape && scan.shape >= 0 && shape >= 0) return true;
    if (scan.cycle >= cycle - 1) return false;
  }
  return generation > scan.generation;
}

}  // namespace qm::admission::exact
