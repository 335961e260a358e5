#pragma once
#include "state/engine_state.hpp"

#include <cstdint>
#include <utility>

namespace qm::admission {

/// The usage of a local queue as of now, without a change of its row.
[[nodiscard]] LocalUsage usage_now(const EngineState& state, const LocalName& local);
/// The same as one weighted number.
[[nodiscard]] double used_by(const EngineState& state, const LocalName& local);

/// Past usage of local queues, so that the least used one goes first (admission fair sharing). A row has the state at
/// the last sampling. The current value follows from the row, the clock, and what the queue held since then: before the
/// held quota changes, the missing samplings are computed.
///
/// Writes   local_usage.
class LocalUsages {
 public:
  explicit LocalUsages(EngineState& state) : state_(state) {}

  /// Local queues that hold quota have a row; others keep theirs until no usage is left.
  void keep_rows();
  /// Call before the held quota of the local queue changes.
  void sample(const LocalName& local);
  /// Adds the entry penalty of a workload that got quota.
  void enter(const Workload& w);
  /// Passes the usage of its local queues to a quota tree, before it is scheduled.
  void pass_to(int tree);

 private:
  EngineState& state_;
};

}  // namespace qm::admission
