#pragma once
#include "qm/autoscaler/replicas/observation.hpp"
#include "qm/autoscaler/replicas/spec.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::autoscaler::replicas {

/// The last step of a sync that decided the number of replicas.
enum class HpaRule {
  kDisabledAtZero,  ///< zero replicas that the autoscaler did not set
  kAboveMax,        ///< corrected without metrics
  kBelowMin,        ///< corrected without metrics
  kAllMetricsFailed,
  kFailedMetricBlocksScaleDown,
  kTolerance,
  kDirection,  ///< the ratio flips, or the result goes the wrong way, once missing and unready pods count
  kMetric,
  kStabilizedUp,
  kStabilizedDown,
  kRateUp,
  kRateDown,
  kDisabledUp,
  kDisabledDown,
  kMax,
  kMin,
};
[[nodiscard]] std::string_view name_of(HpaRule rule);

/// A condition of the status, by type in HpaState.
struct Condition {
  bool status = false;
  std::string reason, message;
};

struct Recommendation {
  Instant at{};
  std::int32_t replicas = 0;
};

/// A change of the number of replicas, in one direction. The slot of an outdated one is used again.
struct ScaleEvent {
  Instant at{};
  std::int32_t change = 0;
  bool outdated = false;
};

/// What the controller remembers of one autoscaler between syncs.
struct HpaState {
  std::optional<std::vector<Recommendation>> recommendations;  ///< empty before the first sync
  std::vector<ScaleEvent> ups, downs;
  std::map<std::string, Condition> conditions;
};

/// One metric in a sync, before windows and limits.
struct MetricResult {
  std::optional<std::int32_t> replicas;  ///< empty: the metric is invalid
  HpaRule rule = HpaRule::kMetric;       ///< kTolerance, kDirection or kMetric
  double ratio = 0;                      ///< of its value to its target, as last computed
  std::string error;                     ///< why it is invalid
};

struct HpaDecision {
  std::int32_t desired = 0;
  HpaRule rule = HpaRule::kMetric;
  /// One entry a metric, before windows and limits; an entry is empty if the metric is invalid. Empty if no metric was
  /// read.
  std::optional<std::vector<std::optional<std::int32_t>>> proposals;
  std::vector<MetricResult> metrics;  ///< those of `proposals`, in their order
};

/// One sync of a HorizontalPodAutoscaler, as kube-controller-manager does it: the new spec.replicas of the target.
///
/// Metrics give proposals, of which the largest counts. Then the stabilization windows, the rate limits and the bounds
/// apply. Ratios, tolerances and roundings are doubles, as in the original, so that results are equal bit by bit.
///
/// Units    replicas; instants of one clock.
/// Threads  any; reads its arguments and changes `state` alone.
/// Fails    never: a failed metric is a condition of the state, and a rule of the decision.
/// Cost     O(pods log pods) a metric, O(recommendations + events).
/// Source   Kubernetes v1.36, pkg/controller/podautoscaler.
[[nodiscard]] HpaDecision sync(const HpaSpec& spec, const ControllerOptions& options, const Observation& seen,
                               HpaState& state);

/// Replaces the change that the last sync stored by the one that happened: of several autoscalers of one target, or of
/// one that only observes, a decision need not be the new size. `earlier`: the state before that sync.
void record_change(const HpaSpec& spec, Instant now, std::int32_t before, std::int32_t after, const HpaState& earlier,
                   HpaState& state);

}  // namespace qm::autoscaler::replicas
