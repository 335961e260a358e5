#include "scheduler/ages.hpp"

#include <algorithm>

namespace qm::admission {

void Ages::forget(const WorkloadUid& uid, WorkloadEntry& entry) {
  if (entry.ages) changes_.erase({*entry.ages, uid});
  entry.ages.reset();
}

void Ages::refresh(const Workload& w, WorkloadEntry& entry) {
  forget(w.spec.uid, entry);
  entry.raise = 0;
  entry.overdue = false;
  const auto rule = rules_.find(w.cluster_queue);
  if (rule == rules_.end() || entry.at == Presence::kNowhere) return;
  const bool waits = entry.at == Presence::kWaiting || entry.at == Presence::kClaiming;
  const Duration waited = std::max(Duration{0}, (waits ? now_ : w.quota_reserved) - entry.since);
  entry.raise = std::int64_t{rule->second.priority(entry.priority, waited)} - entry.priority;
  if (!waits) return;
  entry.overdue = rule->second.overdue(waited);
  if (const auto next = rule->second.next_change(entry.priority, waited)) {
    entry.ages = entry.since + *next;
    changes_.emplace(*entry.ages, w.spec.uid);
  }
}

std::optional<WorkloadUid> Ages::due() const {
  if (changes_.empty() || changes_.begin()->first > now_) return std::nullopt;
  return changes_.begin()->second;
}

std::optional<Instant> Ages::next_change() const {
  return changes_.empty() ? std::nullopt : std::optional(changes_.begin()->first);
}

}  // namespace qm::admission
