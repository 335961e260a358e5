// The meaning of the rules of a decision, for users.
#include "qm/autoscaler/replica_scaling.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace qm::autoscaler {

std::string_view meaning_of_rule(std::string_view rule) {
  using Row = std::pair<std::string_view, std::string_view>;
  static constexpr std::array<Row, 31> kMeanings{{
      {"disabled_at_zero", "the target has zero replicas that its HorizontalPodAutoscaler did not set"},
      {"above_max", "the target has more replicas than the maximum"},
      {"below_min", "the target has fewer replicas than the minimum"},
      {"all_metrics_failed", "no metric is valid, so the number stays"},
      {"failed_metric_blocks_scale_down", "a metric is invalid, so the number does not become smaller"},
      {"tolerance", "the ratio of value and target is within the tolerance"},
      {"direction", "with missing and unready pods the ratio does not support the change"},
      {"metric", "the result of the metrics"},
      {"stabilized_up", "a lower recommendation is in the window of scaleUp"},
      {"stabilized_down", "a higher recommendation is in the window of scaleDown"},
      {"rate_up", "the policies of scaleUp limit the change"},
      {"rate_down", "the policies of scaleDown limit the change"},
      {"disabled_up", "selectPolicy of scaleUp is Disabled"},
      {"disabled_down", "selectPolicy of scaleDown is Disabled"},
      {"max", "the maximum limits the result"},
      {"min", "the minimum limits the result"},
      {"paused", "the ScaledObject is paused"},
      {"activate", "a trigger is above its activation threshold"},
      {"forced_activation", "the annotation force-activation is set"},
      {"active", "a trigger is active"},
      {"active_partial_error", "a trigger is active and another one failed"},
      {"paused_scale_out", "the annotation paused-scale-out is set"},
      {"paused_scale_in", "the annotation paused-scale-in is set"},
      {"error_waits_for_fallback", "a trigger failed, and its failures have not reached failureThreshold"},
      {"error_no_fallback", "a trigger failed, and the ScaledObject has no fallback"},
      {"initial_cooldown", "initialCooldownPeriod is not over"},
      {"cooldown", "cooldownPeriod is not over"},
      {"deactivate", "no trigger is active and cooldownPeriod is over"},
      {"deactivate_to_idle", "no trigger is active, so idleReplicaCount applies"},
      {"raise_to_min", "minReplicaCount is larger"},
      {"inactive", "no trigger is active"},
  }};
  const auto row = std::ranges::find(kMeanings, rule, &Row::first);
  return row == kMeanings.end() ? rule : row->second;
}

}  // namespace qm::autoscaler
