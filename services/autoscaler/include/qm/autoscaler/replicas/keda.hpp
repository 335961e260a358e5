#pragma once
#include "qm/autoscaler/replicas/hpa.hpp"
#include "qm/autoscaler/replicas/triggers.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qm::autoscaler::replicas {

struct ScaledObject;

/// The step of a pass of the scale loop that decided the number of replicas.
enum class LoopRule {
  kPaused,
  kActivate,
  kForcedActivation,
  kActive,
  kActivePartialError,
  kPausedScaleOut,
  kPausedScaleIn,
  kErrorWaitsForFallback,
  kErrorNoFallback,
  kInitialCooldown,
  kCooldown,
  kDeactivate,
  kDeactivateToIdle,
  kRaiseToMin,
  kInactive,
};
[[nodiscard]] std::string_view name_of(LoopRule rule);

/// What KEDA and the autoscaler that it creates see at one instant.
struct TriggerObservation {
  Instant now{};
  std::int32_t replicas = 0;  ///< spec.replicas of the target
  std::int32_t status_replicas = 0;
  std::vector<Pod> pods;
  std::map<std::string, Reading> readings;  ///< by trigger
  std::optional<std::vector<ResourceSample>> resource;
};

/// What is remembered of one ScaledObject between passes. Both loops read the triggers, and both count failures.
struct ScaledObjectState {
  Instant created{};
  std::optional<Instant> last_active;
  HpaState hpa;
  std::map<std::string, std::int32_t> failures;  ///< in a row, by trigger
  std::map<std::string, PreviousOffsets> offsets;
};

/// The name of the metric that a formula gives.
inline constexpr std::string_view kCompositeMetric = "composite-metric";

/// Metrics of triggers, in thousandths, in their order; empty: an error, or a trigger that a formula sees as nil. The
/// composite metric is last.
using TriggerMetrics = std::vector<std::pair<std::string, std::optional<std::int64_t>>>;

struct LoopDecision {
  std::int32_t replicas = 0;
  LoopRule rule = LoopRule::kInactive;
  bool active = false;  ///< a trigger is above its activation threshold
  bool error = false;   ///< a trigger failed, and no fallback replaces it
  TriggerMetrics metrics;
};

/// One pass of KEDA's scale loop: it activates and deactivates, between 0 and 1, or the idle count and the minimum.
///
/// Units, threads, cost and failures are those of sync(). Readings that failed count in `state.failures`.
/// Source   keda 8b4f083c (2.20.1+117), pkg/scaling and pkg/fallback.
[[nodiscard]] LoopDecision poll(const ScaledObject& object, const ScalingAnnotations& annotations,
                                const TriggerObservation& seen, ScaledObjectState& state);

struct TriggerHpaDecision {
  HpaDecision hpa;
  TriggerMetrics metrics;  ///< those that it read
};

/// One sync of the HorizontalPodAutoscaler that KEDA creates for the object. Not called while it is paused: then there
/// is none.
[[nodiscard]] TriggerHpaDecision sync(const ScaledObject& object, const ScalingAnnotations& annotations,
                                      const ControllerOptions& options, const TriggerObservation& seen,
                                      ScaledObjectState& state);

/// As record_change() of an autoscaler, for the one that KEDA creates for the object.
void record_change(const ScaledObject& object, Instant now, std::int32_t before, std::int32_t after,
                   const HpaState& earlier, HpaState& state);

/// Applies changed annotations: pausing removes the autoscaler with its memory, and paused-replicas sets the size. The
/// replicas of the target afterwards.
[[nodiscard]] std::int32_t reconcile(const ScalingAnnotations& annotations, std::int32_t replicas,
                                     ScaledObjectState& state);

}  // namespace qm::autoscaler::replicas
