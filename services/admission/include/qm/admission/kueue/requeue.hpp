#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qm::admission::kueue {

/// How far a nominated workload came in its cycle.
enum class Fate : std::uint8_t {
  kNotNominated,  ///< does not fit, or waits for its victims
  kSkipped,       ///< another workload blocked it
  kGated,         ///< it would need victims, and a preemption gate is closed
  kNominated,     ///< fits, and was not admitted
  kAssumed,       ///< admitted, once that is written
  kEvicted,       ///< held quota, and is evicted
};

/// Why a workload is requeued, which determines when it is nominated again. The names are Kueue's.
enum class Requeue : std::uint8_t {
  kGeneric,
  kFailedAfterNomination,
  kNamespaceMismatch,
  kPreemptionGated,
  kPendingPreemption,
  kPendingMigration,
  kPreemptionFailed,
  kNoFit,
  kNoCandidates,
};
[[nodiscard]] std::string_view name_of(Requeue reason);

/// Where a workload is requeued that was nominated and not admitted.
struct Return {
  Requeue reason = Requeue::kGeneric;
  bool at_once = false;       ///< active in the next cycles; otherwise after a change
  bool leads = false;         ///< first in its queue, because its victims are leaving
  bool closes_shape = false;  ///< workloads of its shape are inadmissible too
  bool reports = false;       ///< the reason is written to its status
};
/// `strict`: of its queue. `flavors_left`: the flavor search has not finished.
/// Source   Kueue, pkg/scheduler/scheduler.go requeueAndUpdate; pkg/cache/queue/cluster_queue.go RequeueIfNotPresent.
[[nodiscard]] Return returned(Fate fate, Requeue reason, bool strict, bool flavors_left);

/// The result of `issued` preemptions, `failed` of which could not be written. In either case the flavor search
/// restarts.
struct Displacing {
  Requeue reason = Requeue::kGeneric;
  std::string message;  ///< appended to the message of the workload
};
[[nodiscard]] Displacing preempting(int issued, int failed);

/// The status conditions of a requeued workload. `wait` and `text`: reason and message of QuotaReserved = False.
struct Condition {
  std::string type;
  bool holds = false;
  std::string reason, message;
};
[[nodiscard]] std::vector<Condition> conditions_of(Fate fate, std::string_view wait, std::string_view text);

}  // namespace qm::admission::kueue
