#pragma once
#include "qm/admission/queries/explanation.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

/// Queries about queues: they read the state of the engine and change nothing.
///
/// Threads  that of the engine.
namespace qm::admission {

struct Tables;

/// A ClusterQueue with its numbers of workloads and its amounts.
///
/// Units    CPU and GPU in thousandths, memory in bytes, everything else in units.
struct QueueView {
  const ClusterQueue* queue = nullptr;
  std::int64_t pending_ready = 0, pending_backed_off = 0, holding = 0, admitted = 0;
  std::map<std::string, std::int64_t> nominal, used,
      borrowed;                          ///< by resource, over flavors; in a pool `nominal` is the deserved amount
  std::optional<double> dominant_share;  ///< in a pool: the largest share over its resources
};
[[nodiscard]] QueueView queue_view(const EngineState& state, const ClusterQueue& queue);

/// The resource groups of the queue with the quota of the open quota windows, as of the last step.
[[nodiscard]] std::vector<ResourceGroup> current_groups(const EngineState& state, const ClusterQueue& queue);
/// A required admission check that does not exist or has no active controller; it makes the queue inactive.
[[nodiscard]] std::optional<Cause> check_obstacle(const Tables& tables, const ClusterQueue& queue);
/// Why the queue admits no workload: Terminating, Stopped, an admission check, its pool, a cycle of cohorts. Empty if
/// the queue is active.
[[nodiscard]] std::optional<Cause> inactive_reason(const EngineState& state, const ClusterQueue& queue);
/// The cluster queues that share quota with this one, including itself. O(cluster queues).
[[nodiscard]] std::set<QueueName> queues_of_tree(const EngineState& state, const QueueName& queue);
/// Name of the quota tree of the queue: its root cohort, or the queue itself if it is in no cohort.
[[nodiscard]] std::string quota_tree_name(const Tables& tables, const QueueName& queue);

}  // namespace qm::admission
