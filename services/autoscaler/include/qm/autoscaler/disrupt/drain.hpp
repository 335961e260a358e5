#pragma once
#include "qm/autoscaler/disrupt/holds.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// A pod on a node that is drained.
struct DrainPod {
  std::string ns, name, uid;
  HoldingPod holding;        ///< its annotation; PodDisruptionBudgets are enforced by the API server
  Duration grace{0};         ///< spec.terminationGracePeriodSeconds
  bool critical = false;     ///< of a system priority class: evicted after the others
  bool stays = false;        ///< of a DaemonSet, a mirror pod, finished, or it tolerates karpenter.sh/disrupted
  bool terminating = false;  ///< it has a deletion timestamp
  std::optional<Instant> deleted_by;  ///< the end of its own grace period; with `terminating`
  friend auto operator<=>(const DrainPod&, const DrainPod&) = default;
};

/// What to do with a pod now.
struct DrainStep {
  enum class Kind : std::uint8_t { kEvict, kDelete };
  std::size_t pod = 0;  ///< index
  Kind kind = Kind::kEvict;
  std::int64_t grace_seconds = -1;  ///< of kDelete; -1 = that of the pod
  friend auto operator<=>(const DrainStep&, const DrainStep&) = default;
};

struct DrainPlan {
  std::vector<DrainStep> steps;
  std::int64_t left = 0;  ///< pods that must leave and have not
};

/// The next steps of a drain.
///
/// Order     critical pods once the others have left.
/// Evicted   pods without do-not-disrupt, through the API server, which enforces PodDisruptionBudgets.
/// Deleted   with a deadline of the node: a pod at the deadline minus its own grace period, whatever holds it. Its
///           grace period never exceeds the time that is left, and is at least one second.
/// Left out  a pod whose deletion should have ended more than a minute ago; others do not wait for it.
/// Source    pkg/controllers/node/termination/terminator of Karpenter 1.14.
[[nodiscard]] DrainPlan next_steps(std::span<const DrainPod> pods, std::optional<Instant> deadline, Instant now);

}  // namespace qm::autoscaler
