#pragma once
#include "qm/autoscaler/nodes/node_pods.hpp"
#include "qm/base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::autoscaler {

/// On a node: it is not removed ("true").
inline constexpr std::string_view kScaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
/// On a pod: whether it may be evicted ("true", "false"), and its volumes that need not be kept ("cache,tmp").
inline constexpr std::string_view kSafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict";
inline constexpr std::string_view kDaemonSetPod = "cluster-autoscaler.kubernetes.io/daemonset-pod";
inline constexpr std::string_view kSafeLocalVolumes = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";

/// Which pods keep their node, and how many nodes are removed at once: the flags of Cluster Autoscaler.
struct ScaleDownRules {
  std::int64_t utilization_milli = 0;        ///< a node below this part of its CPU and memory is not needed; 0 = off
  std::int64_t gpu_utilization_milli = 500;  ///< of a node with GPUs, where only these count
  bool ignore_daemon_sets = false;           ///< their requests are not utilization
  bool skip_system_pods = true;              ///< a pod of kube-system without a PodDisruptionBudget keeps its node
  bool skip_local_storage = true;            ///< so does one with emptyDir or hostPath
  bool skip_custom_controllers = true;       ///< so does one of a controller that Kubernetes does not bring
  std::int64_t max_empty = 10;               ///< empty nodes that are removed at once
  std::int64_t max_drains = 1;               ///< nodes with pods that are drained at once
  Duration delay_after_delete{0};            ///< no node is removed for this time after a removal
  Duration delay_after_failure = std::chrono::minutes(3);  ///< and after one that failed
  Duration max_drain = std::chrono::minutes(12);  ///< then the drain is given up: time for evictions and grace periods
  friend auto operator<=>(const ScaleDownRules&, const ScaleDownRules&) = default;
};

/// A node group, with its own rules where its tags have them.
struct ScaleDownGroup {
  std::string name;
  std::int64_t min = 0;   ///< instances that it keeps
  std::int64_t size = 0;  ///< instances that run and are not being removed
  std::int64_t utilization_milli = 0, gpu_utilization_milli = 0;
  bool ignore_daemon_sets = false;
  std::int64_t may_empty = 0, may_drain = 0;  ///< what disruption budgets of its NodePool allow in addition
  friend auto operator<=>(const ScaleDownGroup&, const ScaleDownGroup&) = default;
};

/// A running node.
struct ScaleDownNode {
  std::string name;
  const NodePods* view = nullptr;    ///< never null
  std::optional<std::size_t> group;  ///< index, if it may be removed; none = it is only a destination
  bool destination = true;           ///< pods may move to it: it is ready, not cordoned, and stays
  std::string kept_by;               ///< why it may not be removed, beyond its pods; empty = nothing
  std::optional<Instant> since;      ///< it has not been needed since then
  Duration unneeded{0};              ///< time after which it is removed
  friend auto operator<=>(const ScaleDownNode&, const ScaleDownNode&) = default;
};

struct ScaleDownProblem {
  ScaleDownRules rules;
  std::vector<ScaleDownGroup> groups;
  std::vector<ScaleDownNode> nodes;         ///< names are distinct
  std::int64_t emptying = 0, draining = 0;  ///< removals that are in progress
  friend auto operator<=>(const ScaleDownProblem&, const ScaleDownProblem&) = default;
};

/// How much of a node its pods request.
struct Utilization {
  std::string resource;    ///< the most used one
  std::int64_t milli = 0;  ///< of the allocatable amount
  friend auto operator<=>(const Utilization&, const Utilization&) = default;
};
/// Of a node with GPUs only these count. DaemonSets that are ignored are also no part of the allocatable amount; mirror
/// pods never count, nor pods that end.
///
/// Source   simulator/utilization/info.go of Cluster Autoscaler 1.36.
[[nodiscard]] Utilization utilization_of(const NodePods& node, bool ignore_daemon_sets);
/// Whether the node has GPUs, so that the threshold of GPUs applies.
[[nodiscard]] bool has_gpus(const NodePods& node);
/// The pod that keeps its node, and the rule: "pod a/b has no controller". Empty = every pod may be evicted.
///
/// Order    as in Cluster Autoscaler: safe-to-evict "true" decides alone; then the controller, kube-system, safe-to-evict
///          "false", local storage, PodDisruptionBudgets.
/// Source   simulator/drainability/rules of Cluster Autoscaler 1.36.
[[nodiscard]] std::string blocking_pod(const NodePods& node, const ScaleDownRules& rules);

/// A node that is not needed, with new places for its pods.
struct UnneededNode {
  struct Move {
    std::size_t pod = 0, to = 0;  ///< indexes of the pod in its node, and of the other node
    friend auto operator<=>(const Move&, const Move&) = default;
  };
  std::size_t node = 0;
  Utilization used;
  std::vector<Move> moves;  ///< none = no pod has to move: the node is empty
  friend auto operator<=>(const UnneededNode&, const UnneededNode&) = default;
};
/// A node of a group that stays.
struct NeededNode {
  std::size_t node = 0;
  std::string why;
  friend auto operator<=>(const NeededNode&, const NeededNode&) = default;
};
struct UnneededNodes {
  std::vector<UnneededNode> unneeded;  ///< all of them may go together
  std::vector<NeededNode> needed;
  friend auto operator<=>(const UnneededNodes&, const UnneededNodes&) = default;
};

/// The nodes that are not needed: their utilization is below the threshold, no pod keeps them, and all of their pods fit
/// other nodes at once by the rules of kube-scheduler.
///
/// Order    empty nodes first, then those that have not been needed for longest, then the least used ones. A node that
///          goes takes no pods; pods move to nodes that stay in any case, the fullest first.
/// Bounds   the first 100 nodes with pods are tried; the others are needed.
/// Volumes  a pod with PersistentVolumeClaims stays in its zone.
/// Cost     one rule book of all pods, and for each pod of a tried node one query.
/// Source   core/scaledown/{eligibility,planner} of Cluster Autoscaler 1.36.
[[nodiscard]] UnneededNodes find_unneeded(const ScaleDownProblem& problem);

struct ScaleDownDecision {
  std::vector<std::size_t> start;  ///< indexes in UnneededNodes::unneeded: removed now
  std::vector<std::string> held;   ///< "node n1 is not needed and stays: ..."
  std::optional<Instant> wake_at;  ///< when the decision may differ by time alone
};
/// The unneeded nodes whose time is over, within the minimum of their group, the budgets and the numbers of removals at
/// once.
///
/// `delayed_until`: nothing is removed before, after a launch, a removal or a failure. `since` of the nodes: set.
[[nodiscard]] ScaleDownDecision decide_scale_down(const ScaleDownProblem& problem, const UnneededNodes& found,
                                                  Instant now, std::optional<Instant> delayed_until);

/// The first rule that a decision breaks, checked without the search: a pod that keeps its node, a move to a node that
/// goes, an amount that is exceeded, a group below its minimum. Empty = it still holds.
[[nodiscard]] std::string broken_rule(const ScaleDownProblem& problem, const UnneededNodes& found,
                                      const ScaleDownDecision& decision);

}  // namespace qm::autoscaler
