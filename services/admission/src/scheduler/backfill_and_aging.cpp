// Backfill and aging in the trees: reserved starts, and priorities that rise with age.
#include "qm/admission/decisions.hpp"
#include "qm/admission/forecast/reservations.hpp"
#include "scheduler/rule_tree.hpp"

#include <algorithm>

namespace qm::admission {

void Decisions::forget_age(const WorkloadUid& uid, WorkloadEntry& entry) {
  if (entry.ages) ages_.erase({*entry.ages, uid});
  entry.ages.reset();
}

/// The age is as of aged_, so that a tree rebuilt at that time is equal. For a holder it is as of when it got quota.
void Decisions::refresh_age(const Workload& w, WorkloadEntry& entry) {
  forget_age(w.spec.uid, entry);
  entry.raise = 0;
  entry.overdue = false;
  const auto rule = aging_.find(w.cluster_queue);
  if (rule == aging_.end() || entry.at == At::kNowhere) return;
  const bool waits = entry.at == At::kWaiting || entry.at == At::kClaiming;
  const Duration waited = std::max(Duration{0}, (waits ? aged_ : w.quota_reserved) - entry.since);
  entry.raise = std::int64_t{rule->second.priority(entry.priority, waited)} - entry.priority;
  if (!waits) return;
  entry.overdue = rule->second.overdue(waited);
  if (const auto next = rule->second.next_change(entry.priority, waited)) {
    entry.ages = entry.since + *next;
    ages_.emplace(*entry.ages, w.spec.uid);
  }
}

std::vector<int> Decisions::age(Instant now, const std::function<const Workload&(const WorkloadUid&)>& row) {
  std::vector<int> out;
  aged_ = std::max(aged_, now);
  while (!ages_.empty() && ages_.begin()->first <= aged_) {
    const auto uid = ages_.begin()->second;
    auto& entry = *entries_.find(uid);
    trees_[static_cast<std::size_t>(entry.tree)]->withdraw(entry.id);
    enter(row(uid), entry);
    out.push_back(entry.tree);
  }
  return out;
}

std::vector<std::optional<Instant>> Decisions::reserved(const std::vector<const Workload*>& in_order,
                                                        Instant now) const {
  std::vector<std::optional<Instant>> out;
  forecast::Reservations plan;
  bool begun = false, whole = true;
  for (const auto* w : in_order) {
    out.emplace_back();
    const auto as_seen = seen(*w);
    if (!as_seen || !whole) continue;
    auto& [field, work] = *as_seen;
    if (!begun) {
      const auto then = std::exchange(field->now, micros(now));
      plan.begin(*field);
      field->now = then;
      begun = true;
    }
    whole = plan.reserve(work);
    if (whole) out.back() = plan.last();
  }
  return out;
}

}  // namespace qm::admission
