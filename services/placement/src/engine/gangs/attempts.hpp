#pragma once
#include "engine/gangs/pods.hpp"
#include "engine/state.hpp"

#include <set>
#include <vector>

namespace qm::placement {

/// How an attempt ends.
enum class Ending : std::uint8_t {
  kNone,
  kAwaited,  ///< its pods end without an order
  kOrdered,  ///< its pods are deleted
};

/// What an attempt still needs: its end, its missing ranks, and the ranks with a pending pod.
///
/// Present    a rank whose member is placed or has finished. Members on lost nodes do not count.
/// Minimum    so many ranks of each set must be present; with fewer the gang ends as a whole.
class Attempts {
 public:
  Attempts(const State& state, const Pods& pods) : tables_(state.tables), pods_(pods) {}

  /// Whether and how the attempt must end.
  [[nodiscard]] Ending ending_of(const AttemptId& id) const;
  /// Whether the workload has not ended, and its attempt, or some pods of it, have no nodes.
  [[nodiscard]] bool awaits_nodes(const WorkloadUid& uid) const;
  /// Whether any set has a missing rank.
  [[nodiscard]] bool has_missing(const AttemptId& id, const Assignment& row) const;
  /// Whether every set has its minimum of ranks.
  [[nodiscard]] bool has_minimum(const AttemptId& id, const Assignment& row) const;
  /// Missing ranks with a pending pod. Pods without ranks are interchangeable: they count for the lowest.
  [[nodiscard]] std::vector<std::int32_t> awaited_ranks(const AttemptId& id, const Assignment& row,
                                                        std::size_t set) const;
  /// Whether any set has a missing rank with a pending pod.
  [[nodiscard]] bool has_awaited(const AttemptId& id, const Assignment& row) const;

 private:
  [[nodiscard]] std::set<std::int32_t> missing_ranks(const AttemptId& id, const Assignment& row, std::size_t set) const;

  const Tables& tables_;
  const Pods& pods_;
};

}  // namespace qm::placement
