#include "fields.hpp"
#include "hpa_fields.hpp"
#include "qm/autoscaler/replicas/manifests.hpp"
#include "qm/base/parse.hpp"
#include "trigger_fields.hpp"

#include <algorithm>
#include <limits>

namespace qm::autoscaler::replicas {
namespace {

constexpr std::int32_t kMostCount = std::numeric_limits<std::int32_t>::max();

Duration seconds_of(Fields& in, std::string_view name, int fallback) {
  return std::chrono::seconds(in.integer(name, 0, kMostCount).value_or(fallback));
}

std::optional<Fallback> read_fallback(Fields& in) {
  auto fallback = in.object("fallback");
  if (!in.has("fallback")) return {};
  Fallback out;
  const auto threshold = fallback.integer("failureThreshold", 0, kMostCount);
  if (!threshold) fallback.wrong("failureThreshold", "is missing");
  out.failure_threshold = threshold.value_or(0);
  const auto replicas = fallback.integer("replicas", 0, kMostCount);
  if (!replicas) fallback.wrong("replicas", "is missing");
  out.replicas = replicas.value_or(0);
  const auto behavior = fallback.word("behavior", {"static", "currentReplicas", "currentReplicasIfHigher",
                                                   "currentReplicasIfLower", "scalingModifiers"});
  out.behavior = static_cast<Fallback::Behavior>(behavior.value_or(0));
  fallback.end();
  return out;
}

std::optional<ScalingModifiers> read_modifiers(Fields& in, const std::vector<Trigger>& triggers) {
  auto modifiers = in.object("scalingModifiers");
  if (!in.has("scalingModifiers") || in.any("scalingModifiers").size() == 0) return {};
  std::vector<std::string> names;
  for (const Trigger& trigger : triggers) {
    if (!trigger.is_resource()) names.push_back(trigger.name);
  }
  const auto target = modifiers.number_text("target"), activation = modifiers.number_text("activationTarget");
  if (!target || *target <= 0) modifiers.wrong("target", "must be a number above 0");
  const auto type = modifiers.word("metricType", {"AverageValue", "Value"});
  const auto text = modifiers.text("formula", true);
  auto formula = Formula::compile(text, names);
  if (!formula) modifiers.wrong("formula", formula.error().message, "the names are those of the triggers");
  const auto whole = whole_number(modifiers.text("target", true));
  modifiers.end();
  if (!formula) return {};
  return ScalingModifiers{std::move(*formula), target.value_or(1), whole && *whole > 0, activation.value_or(0),
                          type == 1U};
}

void read_advanced(Fields& in, ScaledObject& out) {
  auto advanced = in.object("advanced");
  advanced.known({"restoreToOriginalReplicaCount"});
  auto config = advanced.object("horizontalPodAutoscalerConfig");
  config.known({"name"});
  out.behavior = read_behavior(config, "behavior");
  config.end();
  out.modifiers = read_modifiers(advanced, out.triggers);
  advanced.end();
}

void check_bounds(Fields& in, const ScaledObject& out) {
  if (out.max < std::max(out.min, 1)) {
    in.wrong("maxReplicaCount", fmt::format("is less than minReplicaCount, {}", out.min));
  }
  if (out.idle && *out.idle >= out.min) {
    in.wrong("idleReplicaCount", fmt::format("must be less than minReplicaCount, {}", out.min));
  }
  if (out.triggers.empty()) in.wrong("triggers", "has no trigger");
  const bool resources_only = std::ranges::all_of(out.triggers, &Trigger::is_resource);
  if (out.min == 0 && resources_only) {
    in.wrong("minReplicaCount", "cannot be 0 if all triggers are cpu or memory", "set it to 1, or add another trigger");
  }
  if (out.fallback && resources_only && !out.modifiers) {
    in.wrong("fallback", "has no effect if all triggers are cpu or memory", "remove it, or add another trigger");
  }
  if (out.fallback && out.fallback->behavior == Fallback::Behavior::kScalingModifiers && !out.modifiers) {
    in.wrong("fallback", "has the behavior scalingModifiers without a formula", "add advanced.scalingModifiers");
  }
}

}  // namespace

Result<ScaledObject> read_scaled_object(const Json& object) {
  Fault fault;
  ScaledObject out;
  Fields top(object, "", fault);
  if (top.text("kind", true) != "ScaledObject") top.wrong("kind", "must be ScaledObject");
  if (top.text("apiVersion", true) != "keda.sh/v1alpha1") top.wrong("apiVersion", "must be keda.sh/v1alpha1");
  top.known({"metadata", "status"});
  auto spec = top.object("spec");
  spec.known({"scaleTargetRef", "pollingInterval"});
  out.min = spec.integer("minReplicaCount", 0, kMostCount).value_or(0);
  out.max = spec.integer("maxReplicaCount", 1, kMostCount).value_or(100);
  out.idle = spec.integer("idleReplicaCount", 0, kMostCount);
  out.cooldown = seconds_of(spec, "cooldownPeriod", 300);
  out.initial_cooldown = seconds_of(spec, "initialCooldownPeriod", 0);
  out.fallback = read_fallback(spec);
  spec.each("triggers", [&](Fields& trigger) {
    if (auto one = read_trigger(trigger, out.triggers.size())) {
      const bool twice = std::ranges::find(out.triggers, one->name, &Trigger::name) != out.triggers.end();
      if (twice) trigger.wrong("name", "is the name of an earlier trigger", "give each trigger a name of its own");
      out.triggers.push_back(std::move(*one));
    }
  });
  if (!fault) read_advanced(spec, out);
  if (!fault) check_bounds(spec, out);
  spec.end();
  top.end();
  if (fault) return fail(std::move(*fault));
  return out;
}

Result<ScalingAnnotations> read_annotations(const Json& annotations) {
  const auto holds = [&](std::string_view name) {
    const auto* value = annotations.find(fmt::format("autoscaling.keda.sh/{}", name));
    return value != nullptr && boolean_of(value->string()).value_or(true);
  };
  ScalingAnnotations out;
  constexpr std::string_view kReplicas = "autoscaling.keda.sh/paused-replicas";
  if (const auto* replicas = annotations.find(kReplicas)) {
    out.paused_replicas = whole_number<std::int32_t>(replicas->string());
    if (!out.paused_replicas || *out.paused_replicas < 0) {
      return fail({Code::kInvalid, fmt::format("{}: \"{}\" is not a number of replicas", kReplicas, replicas->string()),
                   std::string(kReplicas), "use a whole number from 0"});
    }
  }
  out.paused = out.paused_replicas || holds("paused");
  out.pause_scale_in = holds("paused-scale-in");
  out.pause_scale_out = holds("paused-scale-out");
  out.force_activation = holds("force-activation");
  return out;
}

}  // namespace qm::autoscaler::replicas
