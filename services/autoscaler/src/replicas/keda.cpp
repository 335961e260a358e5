// The scale loop of KEDA and the autoscaler that it creates.
//
// Both read all triggers in the same way: a reading, else the fallback, else an error. A formula makes one metric of
// all values. The loop needs their activity, the autoscaler their metrics.
#include "qm/autoscaler/replicas/keda.hpp"

#include "arithmetic.hpp"
#include "qm/autoscaler/replicas/scaled_object.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace qm::autoscaler::replicas {
namespace {

constexpr std::array<std::string_view, 15> kLoopRules{"paused",
                                                      "activate",
                                                      "forced_activation",
                                                      "active",
                                                      "active_partial_error",
                                                      "paused_scale_out",
                                                      "paused_scale_in",
                                                      "error_waits_for_fallback",
                                                      "error_no_fallback",
                                                      "initial_cooldown",
                                                      "cooldown",
                                                      "deactivate",
                                                      "deactivate_to_idle",
                                                      "raise_to_min",
                                                      "inactive"};

/// A quantity as apimachinery gives it as a double.
double approximate(std::int64_t milli) { return static_cast<double>(milli) * 0.001; }

/// A trigger after its fallback.
struct Value {
  std::optional<std::int64_t> milli;  // empty: an error, or nil
  bool active = false;
  bool nil = false;       // a formula sees it as nil
  bool fallback = false;  // milli is that of the fallback
  [[nodiscard]] bool error() const { return !milli && !nil; }
};

bool fallback_is_valid(const ScaledObject& object) {
  return object.fallback && (!object.modifiers || object.modifiers->whole_target);
}

/// The value that holds the replicas of the fallback; empty if a Value target has no ready pod to be divided by.
std::optional<std::int64_t> fallback_milli(const ScaledObject& object, const Trigger& trigger,
                                           const TriggerObservation& seen) {
  const Fallback& fallback = *object.fallback;
  auto replicas = static_cast<double>(fallback.replicas);
  const auto current = static_cast<double>(seen.replicas);
  switch (fallback.behavior) {
    case Fallback::Behavior::kCurrent:
      replicas = current;
      break;
    case Fallback::Behavior::kCurrentIfHigher:
      replicas = std::max(current, replicas);
      break;
    case Fallback::Behavior::kCurrentIfLower:
      replicas = std::min(current, replicas);
      break;
    case Fallback::Behavior::kStatic:
    case Fallback::Behavior::kScalingModifiers:
      break;
  }
  if (object.modifiers ? object.modifiers->value_target : trigger.value_target) {
    const auto ready = std::ranges::count_if(
        seen.pods, [](const Pod& pod) { return pod.phase == Pod::Phase::kRunning && pod.ready.value_or(false); });
    if (ready == 0) return {};
    replicas /= static_cast<double>(ready);
  }
  const double target = object.modifiers ? object.modifiers->target : approximate(trigger.target_milli);
  return to_int64(target * 1000 * replicas);
}

Value read(const ScaledObject& object, const Trigger& trigger, const TriggerObservation& seen,
           ScaledObjectState& state) {
  const auto reading = seen.readings.find(trigger.name);
  const auto measured = measure(trigger, reading == seen.readings.end() ? nullptr : &reading->second, seen.now,
                                state.offsets[trigger.name]);
  const bool counted = fallback_is_valid(object);
  auto& failures = state.failures[trigger.name];
  if (measured) {
    failures = 0;
    return {measured->milli, measured->active};
  }
  state.offsets.erase(trigger.name);  // the next pass creates the client again
  if (!counted || ++failures <= object.fallback->failure_threshold) return {};
  if (object.fallback->behavior == Fallback::Behavior::kScalingModifiers) return {.nil = true};
  Value out;
  out.milli = fallback_milli(object, trigger, seen);
  out.active = out.fallback = out.milli.has_value();
  return out;
}

/// The values of all triggers but cpu and memory, in order.
class Values {
 public:
  Values(const ScaledObject& object, const TriggerObservation& seen, ScaledObjectState& state) : object_(object) {
    for (const Trigger& trigger : object.triggers) {
      if (!trigger.is_resource()) all_.emplace_back(trigger.name, read(object, trigger, seen, state));
    }
    if (error()) state.offsets.clear();
  }

  [[nodiscard]] bool error() const {
    return std::ranges::any_of(all_, [](const auto& value) { return value.second.error(); });
  }
  [[nodiscard]] bool active() const {
    return std::ranges::any_of(all_, [](const auto& value) { return value.second.active; });
  }
  [[nodiscard]] TriggerMetrics metrics() const {
    TriggerMetrics out;
    for (const auto& [name, value] : all_) out.emplace_back(name, value.milli);
    return out;
  }
  /// The metric of the formula; empty if it fails. A trigger on fallback replaces the result.
  [[nodiscard]] std::optional<std::int64_t> composite() const {
    const auto on_fallback = std::ranges::find_if(all_, [](const auto& value) { return value.second.fallback; });
    if (on_fallback != all_.end()) return on_fallback->second.milli;
    if (error()) return {};
    std::map<std::string, double> values;
    for (const auto& [name, value] : all_) {
      if (value.milli) values[name] = approximate(*value.milli);
    }
    const ScalingModifiers& modifiers = *object_.modifiers;
    const auto result = modifiers.formula.evaluate(values);
    if (!result) return {};
    if (*result) return to_int64(**result * 1000);
    if (!object_.fallback || object_.fallback->behavior != Fallback::Behavior::kScalingModifiers) return {};
    return to_int64(modifiers.target * 1000 * object_.fallback->replicas);
  }

 private:
  const ScaledObject& object_;
  std::vector<std::pair<std::string, Value>> all_;
};

// ---- the scale loop ----

LoopRule scale_out(const ScaledObject& object, const ScalingAnnotations& annotations, Instant now, LoopDecision& out,
                   ScaledObjectState& state) {
  if (annotations.pause_scale_out) return LoopRule::kPausedScaleOut;
  out.replicas = std::max(object.min, 1);
  state.last_active = now;
  return out.active ? LoopRule::kActivate : LoopRule::kForcedActivation;
}

LoopRule scale_in(const ScaledObject& object, const ScalingAnnotations& annotations, Instant now, LoopDecision& out,
                  const ScaledObjectState& state) {
  if (annotations.pause_scale_in) return LoopRule::kPausedScaleIn;
  if (!state.last_active && !(state.created + object.initial_cooldown < now)) return LoopRule::kInitialCooldown;
  if (state.last_active && !(*state.last_active + object.cooldown < now)) return LoopRule::kCooldown;
  out.replicas = object.idle.value_or(object.min);
  return object.idle ? LoopRule::kDeactivateToIdle : LoopRule::kDeactivate;
}

LoopRule when_active(const ScaledObject& object, const ScalingAnnotations& annotations, Instant now, LoopDecision& out,
                     ScaledObjectState& state) {
  if (out.replicas == 0 || (object.idle && out.replicas < object.min)) {
    return scale_out(object, annotations, now, out, state);
  }
  if (out.error) return LoopRule::kActivePartialError;
  state.last_active = now;
  return LoopRule::kActive;
}

LoopRule when_inactive(const ScaledObject& object, const ScalingAnnotations& annotations, Instant now,
                       LoopDecision& out, const ScaledObjectState& state) {
  if (out.error && object.fallback && object.fallback->replicas != 0) return LoopRule::kErrorWaitsForFallback;
  if (out.error && !object.fallback) return LoopRule::kErrorNoFallback;
  if ((object.idle && out.replicas > *object.idle) || (out.replicas > 0 && object.min == 0)) {
    return scale_in(object, annotations, now, out, state);
  }
  if (!object.idle && out.replicas < object.min) {
    out.replicas = object.min;
    return LoopRule::kRaiseToMin;
  }
  return LoopRule::kInactive;
}

// ---- the autoscaler ----

Metric external(std::string name, bool value_target, std::int64_t target_milli) {
  Metric out;
  out.source = MetricSource::kExternal;
  out.name = std::move(name);
  out.type = value_target ? TargetType::kValue : TargetType::kAverageValue;
  out.milli = target_milli;
  return out;
}

HpaSpec hpa_of(const ScaledObject& object, const ScalingAnnotations& annotations, bool exact_schedules) {
  HpaSpec out;
  out.min = std::max(object.min, 1);
  out.max = object.max;
  out.behavior = object.behavior;
  if (annotations.pause_scale_in || annotations.pause_scale_out) {
    if (!out.behavior) out.behavior.emplace();
    if (annotations.pause_scale_in) out.behavior->down.select = SelectPolicy::kDisabled;
    if (annotations.pause_scale_out) out.behavior->up.select = SelectPolicy::kDisabled;
  }
  for (const Trigger& trigger : object.triggers) {
    if (const auto* resource = std::get_if<ResourceTrigger>(&trigger.source)) {
      out.metrics.push_back(resource->metric);
    } else if (!object.modifiers) {
      out.metrics.push_back(external(trigger.name, trigger.value_target, trigger.target_milli));
      out.metrics.back().exact = exact_schedules && std::holds_alternative<CronTrigger>(trigger.source);
    }
  }
  if (const auto& modifiers = object.modifiers) {
    out.metrics.push_back(
        external(std::string(kCompositeMetric), modifiers->value_target, to_int64(modifiers->target * 1000)));
  }
  return out;
}

}  // namespace

std::string_view name_of(LoopRule rule) { return kLoopRules[static_cast<std::size_t>(rule)]; }

LoopDecision poll(const ScaledObject& object, const ScalingAnnotations& annotations, const TriggerObservation& seen,
                  ScaledObjectState& state) {
  LoopDecision out;
  out.replicas = seen.replicas;
  if (annotations.paused) {
    out.rule = LoopRule::kPaused;
    return out;
  }
  const Values values(object, seen, state);
  out.metrics = values.metrics();
  out.error = values.error();
  out.active = values.active();
  if (object.modifiers) {
    out.active = false;
    if (!out.error) {
      const auto composite = values.composite();
      out.metrics.emplace_back(kCompositeMetric, composite);
      out.active = composite && approximate(*composite) > object.modifiers->activation;
    }
  }
  if (std::ranges::all_of(object.triggers, &Trigger::is_resource)) out.active = true;
  out.rule = out.active || annotations.force_activation ? when_active(object, annotations, seen.now, out, state)
                                                        : when_inactive(object, annotations, seen.now, out, state);
  return out;
}

TriggerHpaDecision sync(const ScaledObject& object, const ScalingAnnotations& annotations,
                        const ControllerOptions& options, const TriggerObservation& seen, ScaledObjectState& state) {
  const auto spec = hpa_of(object, annotations, options.exact_schedules);
  Observation observed{seen.now, seen.replicas, seen.status_replicas, seen.pods, {}};
  TriggerHpaDecision out;
  if (seen.replicas >= spec.min && seen.replicas <= spec.max) {  // otherwise it reads no metrics
    const Values values(object, seen, state);
    out.metrics = values.metrics();
    if (object.modifiers) out.metrics.emplace_back(kCompositeMetric, values.composite());
    for (const auto& [name, milli] : out.metrics) {
      if (milli) observed.readings.external[name] = {*milli};
    }
    observed.readings.resource = seen.resource;
  }
  out.hpa = sync(spec, options, observed, state.hpa);
  return out;
}

void record_change(const ScaledObject& object, Instant now, std::int32_t before, std::int32_t after,
                   const HpaState& earlier, HpaState& state) {
  record_change(hpa_of(object, {}, false), now, before, after, earlier, state);
}

std::int32_t reconcile(const ScalingAnnotations& annotations, std::int32_t replicas, ScaledObjectState& state) {
  if (!annotations.paused) return replicas;
  state.hpa = {};
  return annotations.paused_replicas.value_or(replicas);
}

}  // namespace qm::autoscaler::replicas
