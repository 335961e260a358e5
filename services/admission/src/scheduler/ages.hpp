#pragma once
#include "qm/admission/forecast/aging.hpp"
#include "scheduler/workload_entry.hpp"

#include <map>
#include <optional>
#include <set>
#include <utility>

namespace qm::admission {

/// Ages of pending workloads in queues with aging: how much they raise a priority, and when that changes next.
///
/// Cost     O(log pending).
class Ages {
 public:
  /// `now`: the instant of the ages. It never decreases.
  explicit Ages(Instant now = {}) : now_(now) {}
  void add_rule(const QueueName& queue, const forecast::Aging& rule) { rules_[queue] = rule; }
  [[nodiscard]] bool empty() const { return rules_.empty(); }
  [[nodiscard]] bool has_rule(const QueueName& queue) const { return rules_.contains(queue); }

  /// Sets the age in the entry as of now, so that a tree rebuilt at that time is equal. For a holder it is as of when it
  /// got quota.
  void refresh(const Workload& w, WorkloadEntry& entry);
  void forget(const WorkloadUid& uid, WorkloadEntry& entry);
  void advance(Instant now) { now_ = std::max(now_, now); }
  /// A workload whose age changes by now; empty if there is none.
  [[nodiscard]] std::optional<WorkloadUid> due() const;
  /// The next instant at which an age changes a priority.
  [[nodiscard]] std::optional<Instant> next_change() const;

 private:
  Instant now_;
  std::map<QueueName, forecast::Aging> rules_;
  std::set<std::pair<Instant, WorkloadUid>> changes_;  ///< same instants as in the entries
};

}  // namespace qm::admission
