#include "qm/autoscaler/replicas/hpa.hpp"

#include "limits.hpp"
#include "proposals.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace qm::autoscaler::replicas {
namespace {

constexpr std::array<std::string_view, 16> kHpaRules{"disabled_at_zero",
                                                     "above_max",
                                                     "below_min",
                                                     "all_metrics_failed",
                                                     "failed_metric_blocks_scale_down",
                                                     "tolerance",
                                                     "direction",
                                                     "metric",
                                                     "stabilized_up",
                                                     "stabilized_down",
                                                     "rate_up",
                                                     "rate_down",
                                                     "disabled_up",
                                                     "disabled_down",
                                                     "max",
                                                     "min"};

void set(HpaState& state, const char* type, bool status, std::string_view reason, std::string message = {}) {
  state.conditions[type] = {status, std::string(reason), std::move(message)};
}

/// The largest proposal of the metrics, or the rule by which there is none.
struct Computed {
  std::int32_t replicas = 0;
  HpaRule rule = HpaRule::kMetric;
  std::vector<std::optional<std::int32_t>> proposals;
  std::vector<MetricResult> metrics;
  bool valid = true;
};

Computed compute(const HpaSpec& spec, const ControllerOptions& options, const Observation& seen, HpaState& state) {
  Computed out;
  std::optional<std::pair<std::string_view, std::string>> failed;  // reason and message of the first
  std::size_t failures = 0;
  for (const auto& metric : spec.metrics) {
    const auto proposal = propose(metric, spec, options, seen);
    if (!proposal) {
      out.proposals.emplace_back();
      out.metrics.push_back({{}, HpaRule::kMetric, 0, proposal.error().message});
      ++failures;
      if (!failed) failed.emplace(failure_reason(metric.source), proposal.error().message);
      continue;
    }
    out.proposals.emplace_back(proposal->replicas);
    out.metrics.push_back({proposal->replicas, proposal->rule, proposal->ratio, {}});
    if (out.replicas == 0 || proposal->replicas > out.replicas) {
      out.replicas = proposal->replicas;
      out.rule = proposal->rule;
    }
  }
  if (failures >= spec.metrics.size() || (failures > 0 && out.replicas < seen.replicas)) {
    out.valid = false;
    out.rule = failures >= spec.metrics.size() ? HpaRule::kAllMetricsFailed : HpaRule::kFailedMetricBlocksScaleDown;
    if (failed) set(state, "ScalingActive", false, failed->first, failed->second);
    return out;
  }
  set(state, "ScalingActive", true, "ValidMetricFound");
  return out;
}

/// The proposal within windows, rates and bounds.
HpaDecision normalize(const HpaSpec& spec, const ControllerOptions& options, const Observation& seen, Computed computed,
                      HpaState& state) {
  const auto current = seen.replicas;
  const auto wanted = std::max(0, computed.replicas);
  HpaDecision out{wanted, computed.rule, std::move(computed.proposals), std::move(computed.metrics)};
  const auto stable = stabilize(spec, options, seen.now, current, wanted, state);
  if (stable == wanted) {
    set(state, "AbleToScale", true, "ReadyForNewScale");
  } else {
    const bool up = spec.behavior && wanted >= current;
    out.rule = up ? HpaRule::kStabilizedUp : HpaRule::kStabilizedDown;
    set(state, "AbleToScale", true, up ? "ScaleUpStabilized" : "ScaleDownStabilized");
  }
  const auto limited = limit(spec, seen.now, current, stable, state);
  set(state, "ScalingLimited", limited.rule.has_value() && limited.replicas != stable, limited.reason);
  out.desired = limited.replicas;
  if (limited.rule) out.rule = *limited.rule;
  return out;
}

bool has_object_or_external(const HpaSpec& spec) {
  return std::ranges::any_of(spec.metrics, [](const Metric& metric) {
    return metric.source == MetricSource::kObject || metric.source == MetricSource::kExternal;
  });
}

/// True if the autoscaler itself went to zero, so that it may come back.
bool went_to_zero(const ControllerOptions& options, HpaState& state) {
  if (!options.scale_to_zero) state.conditions.erase("ScaledToZero");
  const auto zero = state.conditions.find("ScaledToZero");
  return zero != state.conditions.end() && zero->second.status;
}

void rescale(const HpaSpec& spec, const ControllerOptions& options, const Observation& seen, std::int32_t desired,
             HpaState& state) {
  set(state, "AbleToScale", true, "SucceededRescale");
  if (options.scale_to_zero) {
    const bool zero = seen.replicas > 0 && desired == 0 && spec.min == 0 && has_object_or_external(spec);
    set(state, "ScaledToZero", zero, zero ? "ScaledToZero" : "NotScaledToZero");
  }
  store_event(spec, seen.now, seen.replicas, desired, state);
}

}  // namespace

std::string_view name_of(HpaRule rule) { return kHpaRules[static_cast<std::size_t>(rule)]; }

HpaDecision sync(const HpaSpec& spec, const ControllerOptions& options, const Observation& seen, HpaState& state) {
  const auto current = seen.replicas;
  set(state, "AbleToScale", true, "SucceededGetScale");
  if (!state.recommendations) state.recommendations = {{seen.now, current}};
  const bool zero = went_to_zero(options, state);
  HpaDecision out;
  if (current == 0 && !(zero && (spec.min != 0 || has_object_or_external(spec)))) {
    set(state, "ScalingActive", false, "ScalingDisabled", "the replica count of the target is zero");
    return {0, HpaRule::kDisabledAtZero, {}, {}};
  }
  if (current > spec.max) {
    out = {spec.max, HpaRule::kAboveMax, {}, {}};
  } else if (current != 0 && current < spec.min) {
    out = {spec.min, HpaRule::kBelowMin, {}, {}};
  } else {
    auto computed = compute(spec, options, seen, state);
    if (!computed.valid) return {current, computed.rule, std::move(computed.proposals), std::move(computed.metrics)};
    out = normalize(spec, options, seen, std::move(computed), state);
    if (current == 0 && out.desired < spec.min) {
      out.desired = spec.min;
      out.rule = HpaRule::kMin;
    }
  }
  if (out.desired != current) rescale(spec, options, seen, out.desired, state);
  return out;
}

void record_change(const HpaSpec& spec, Instant now, std::int32_t before, std::int32_t after, const HpaState& earlier,
                   HpaState& state) {
  state.ups = earlier.ups;
  state.downs = earlier.downs;
  if (after != before) store_event(spec, now, before, after, state);
}

}  // namespace qm::autoscaler::replicas
