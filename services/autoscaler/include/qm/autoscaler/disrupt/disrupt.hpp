#pragma once
#include "qm/autoscaler/budgets/budgets.hpp"
#include "qm/autoscaler/disrupt/holds.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::autoscaler {

/// Why a node is disrupted, in the order in which a pass considers them. Consolidation comes after the last one.
enum class DisruptionCause : std::uint8_t { kExpired, kUnhealthy, kEmpty, kStaticDrift, kDrifted };
/// "Expired", "Unhealthy", "Empty", "Drifted" (also of a static NodePool).
[[nodiscard]] std::string_view name_of(DisruptionCause cause);
/// The reason of the consolidation of nodes in use, which the library `consolidate` decides.
inline constexpr std::string_view kUnderutilized = "Underutilized";
/// Expiry and repair ignore budgets and holds.
[[nodiscard]] constexpr bool is_forceful(DisruptionCause cause) { return cause <= DisruptionCause::kUnhealthy; }

/// A NodePool, as far as disruptions depend on it.
struct DisruptionPool {
  std::string name;
  std::vector<Budget> budgets;
  bool is_static = false;                                  ///< it has a number of nodes: an empty one stays
  std::optional<Duration> consolidate_after{Duration{0}};  ///< of an empty node; none = never
  bool bounded = false;                ///< terminationGracePeriod is set: pods that hold their node do not delay drift
  std::optional<Instant> drift_after;  ///< back-off: a replacement failed, and the next one starts after this time
  friend auto operator<=>(const DisruptionPool&, const DisruptionPool&) = default;
};

/// A node of a NodePool that is initialized and whose instance is not being terminated.
struct DisruptionNode {
  std::string name, pool;
  Instant created{};  ///< of its NodeClaim
  bool ready = true;
  bool disrupted = false;       ///< it is drained, or its replacement starts: it counts in budgets
  bool nominated = false;       ///< a pending gang was promised it: it is not disrupted for any cause
  bool reserved = false;        ///< it is empty, but needed: that is not a cause
  bool do_not_disrupt = false;  ///< the node itself has the annotation "true"
  std::int64_t pods = 0;        ///< without those of DaemonSets and mirror pods
  std::optional<Instant> empty_since;
  std::vector<HoldingPod> holding;
  bool serves = false;                   ///< pods of a service run on it: its replacement starts before it is drained
  std::optional<Duration> expire_after;  ///< none = never
  std::string unhealthy;                 ///< the condition that is to be repaired; empty = none
  Instant repair_at{};                   ///< when it is repaired; with `unhealthy`
  std::string drift;                     ///< reason of its condition Drifted; empty = not drifted
  Instant drifted_since{};
  friend auto operator<=>(const DisruptionNode&, const DisruptionNode&) = default;
};

struct DisruptionProblem {
  Instant now{};
  std::vector<DisruptionPool> pools;  ///< names are distinct
  std::vector<DisruptionNode> nodes;  ///< names are distinct; nodes of other pools are not disrupted
};

/// A node to disrupt now.
struct Disruption {
  std::size_t node = 0;  ///< index in the problem
  DisruptionCause cause{};
  bool replace_first = false;  ///< it is drained once its replacement is initialized
  friend auto operator<=>(const Disruption&, const Disruption&) = default;
};

/// A node that has a cause and is not disrupted now.
struct HeldNode {
  std::size_t node = 0;
  DisruptionCause cause{};
  std::string why;
  friend auto operator<=>(const HeldNode&, const HeldNode&) = default;
};

struct DisruptionDecision {
  std::vector<Disruption> start;
  std::vector<HeldNode> held;
  std::optional<Instant> wake_at;  ///< the next time at which the decision may differ by time alone
};

/// Which nodes are disrupted now.
///
/// Expired    older than expireAfter. A node with pods of a service is replaced first, others are replaced by demand.
/// Unhealthy  its condition was False or Unknown for the time that repair allows. No repair while more than 20 % of the
///            nodes of the pool, rounded up, have such a condition: then the fault is not theirs.
/// Empty      without pods for consolidateAfter; not in a static pool.
/// Drifted    empty nodes first, then by the time since which they are drifted. One with pods, and each of a static
///            pool, is replaced first. None during the pool's back-off.
/// Budgets    of a reason: the least active one, minus nodes that are disrupted or not ready. A pool with a malformed
///            budget has no voluntary disruption.
/// Holds      do-not-disrupt of the node or of a pod, and PodDisruptionBudgets, prevent voluntary disruption. Pods do
///            not hold a drifted node of a pool with terminationGracePeriod.
/// Order      of equal nodes: as in the problem.
/// Cost       O(n log n) for n nodes, and one evaluation of the budgets of each pool and reason.
/// Source     pkg/controllers/{disruption,nodeclaim/expiration,node/health} of Karpenter 1.14.
[[nodiscard]] DisruptionDecision decide_disruptions(const DisruptionProblem& problem, const NextHit& next);

/// By NodePool: how many more nodes may be disrupted now for the reason, by budgets alone.
[[nodiscard]] std::map<std::string, std::int64_t> disruptions_left(const DisruptionProblem& problem,
                                                                   DisruptionReason reason, const NextHit& next);

/// The first rule that the decision breaks, checked without the search: a node twice, a disruption without a cause, a
/// budget or a hold that is ignored. Empty = it still holds.
[[nodiscard]] std::string broken_rule(const DisruptionProblem& problem, const DisruptionDecision& decision,
                                      const NextHit& next);

}  // namespace qm::autoscaler
