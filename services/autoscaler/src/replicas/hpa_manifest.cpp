#include "hpa_fields.hpp"
#include "qm/autoscaler/replicas/manifests.hpp"
#include "qm/base/parse.hpp"
#include "qm/model/quantity.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace qm::autoscaler::replicas {
namespace {

constexpr std::int32_t kMostInt = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kMostPeriod = 1800, kMostWindow = 3600;  // seconds, as the API server checks

/// A quantity of at least 0 as apimachinery gives it as a double: its digits, times a power of ten.
std::optional<double> approximate(std::string_view text) {
  const auto quantity = Quantity::parse(text);
  if (!quantity || quantity->negative()) return {};
  const bool milli = text.ends_with('m');
  if (milli) text.remove_suffix(1);
  const auto point = text.find('.');
  auto digits = std::string(text);
  std::erase(digits, '.');
  const auto whole = whole_number(digits);
  const auto places = (point == text.npos ? 0 : text.size() - point - 1) + (milli ? 3U : 0U);
  constexpr std::array<double, 10> kPowers{1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9};
  if (!whole || places >= kPowers.size()) return static_cast<double>(quantity->milli()) * 0.001;
  return static_cast<double>(*whole) * kPowers[places];
}

ScalingPolicy read_policy(Fields& in) {
  ScalingPolicy out;
  const auto type = in.word("type", {"Pods", "Percent"});
  if (!type) in.wrong("type", "is missing", "use Pods or Percent");
  out.percent = type == 1U;
  const auto value = in.integer("value", 1, kMostInt);
  if (!value) in.wrong("value", "is missing");
  out.value = value.value_or(0);
  const auto period = in.integer("periodSeconds", 1, kMostPeriod);
  if (!period) in.wrong("periodSeconds", "is missing");
  out.period = std::chrono::seconds(period.value_or(0));
  return out;
}

void read_rules(Fields in, ScalingRules& out) {
  if (const auto window = in.integer("stabilizationWindowSeconds", 0, kMostWindow)) {
    out.stabilization = std::chrono::seconds(*window);
  }
  if (const auto select = in.word("selectPolicy", {"Max", "Min", "Disabled"})) {
    out.select = static_cast<SelectPolicy>(*select);
  }
  if (in.has("policies")) {
    out.policies.clear();
    in.each("policies", [&](Fields& policy) { out.policies.push_back(read_policy(policy)); });
    if (out.policies.empty()) in.wrong("policies", "has no policy", "remove the list for the defaults");
  }
  if (const auto& tolerance = in.any("tolerance"); !tolerance.is_null()) {
    out.tolerance = approximate(tolerance.is_string() ? tolerance.string() : tolerance.dump());
    if (!out.tolerance) in.wrong("tolerance", "must be a quantity of at least 0", "write it as 0.05 or 50m");
  }
  in.end();
}

/// The target of a metric. The sources differ in the types that they take.
void read_target(Fields in, std::initializer_list<TargetType> allowed, Metric& out) {
  const auto type = in.word("type", {"Utilization", "Value", "AverageValue"});
  const bool fits = type && std::ranges::find(allowed, static_cast<TargetType>(*type)) != allowed.end();
  if (!fits) in.wrong("type", "is not a target of this source", "use Utilization, Value or AverageValue as it takes");
  out.type = static_cast<TargetType>(type.value_or(0));
  const auto utilization = in.integer("averageUtilization", 1, kMostInt);
  const auto value = in.quantity_milli("value"), average = in.quantity_milli("averageValue");
  if (out.type == TargetType::kUtilization) {
    if (!utilization) in.wrong("averageUtilization", "is missing");
    out.utilization = utilization.value_or(1);
  } else {
    const bool of_all = out.type == TargetType::kValue;
    const auto& milli = of_all ? value : average;
    if (!milli) in.wrong(of_all ? "value" : "averageValue", "is missing");
    out.milli = milli.value_or(1);
  }
  in.end();
}

std::string read_identifier(Fields in) {
  auto out = in.text("name", true);
  in.known({"selector"});
  in.end();
  return out;
}

Metric read_metric(Fields& in) {
  using enum MetricSource;
  using enum TargetType;
  Metric out;
  const auto type = in.text("type", true);
  if (type == "Resource" || type == "ContainerResource") {
    const bool whole = type == "Resource";
    out.source = whole ? kResource : kContainerResource;
    auto source = in.object(whole ? "resource" : "containerResource");
    out.name = source.text("name", true);
    if (!whole) out.container = source.text("container", true);
    read_target(source.object("target"), {kUtilization, kAverageValue}, out);
    source.end();
  } else if (type == "Pods") {
    out.source = kPods;
    auto source = in.object("pods");
    out.name = read_identifier(source.object("metric"));
    read_target(source.object("target"), {kAverageValue}, out);
    source.end();
  } else if (type == "Object" || type == "External") {
    const bool object = type == "Object";
    out.source = object ? kObject : kExternal;
    auto source = in.object(object ? "object" : "external");
    if (object) source.known({"describedObject"});
    out.name = read_identifier(source.object("metric"));
    read_target(source.object("target"), {kValue, kAverageValue}, out);
    source.end();
  } else {
    out.source = kUnknown;
  }
  return out;
}

Metric default_metric() {
  Metric out;
  out.name = "cpu";
  out.utilization = 80;
  return out;
}

std::map<std::string, Condition> read_conditions(Fields in) {
  std::map<std::string, Condition> out;
  in.known({"observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas", "currentMetrics"});
  in.each("conditions", [&](Fields& condition) {
    auto& one = out[condition.text("type", true)];
    one.status = condition.text("status", true) == "True";
    one.reason = condition.text("reason", false);
    one.message = condition.text("message", false);
    condition.known({"lastTransitionTime"});
  });
  in.end();
  return out;
}

}  // namespace

std::optional<Behavior> read_behavior(Fields& in, std::string_view name) {
  auto behavior = in.object(name);
  if (!in.has(name)) return {};
  Behavior out;
  read_rules(behavior.object("scaleUp"), out.up);
  read_rules(behavior.object("scaleDown"), out.down);
  behavior.end();
  return out;
}

Result<HpaManifest> read_hpa(const Json& object) {
  Fault fault;
  HpaManifest out;
  Fields top(object, "", fault);
  if (top.text("kind", true) != "HorizontalPodAutoscaler") top.wrong("kind", "must be HorizontalPodAutoscaler");
  if (top.text("apiVersion", true) != "autoscaling/v2") {
    top.wrong("apiVersion", "is not supported", "convert it to autoscaling/v2");
  }
  top.known({"metadata"});
  auto spec = top.object("spec");
  spec.known({"scaleTargetRef"});
  out.spec.min = spec.integer("minReplicas", 0, kMostInt).value_or(1);
  const auto max = spec.integer("maxReplicas", 1, kMostInt);
  if (!max) spec.wrong("maxReplicas", "is missing");
  out.spec.max = max.value_or(1);
  if (max && *max < out.spec.min) {
    spec.wrong("maxReplicas", fmt::format("is less than minReplicas, {}", out.spec.min));
  }
  spec.each("metrics", [&](Fields& metric) {
    out.spec.metrics.push_back(read_metric(metric));
    if (out.spec.metrics.back().source == MetricSource::kUnknown) {
      for (const auto* name : {"resource", "containerResource", "pods", "object", "external"}) metric.known({name});
    }
  });
  if (out.spec.metrics.empty()) out.spec.metrics.push_back(default_metric());
  out.spec.behavior = read_behavior(spec, "behavior");
  spec.end();
  out.conditions = read_conditions(top.object("status"));
  top.end();
  if (fault) return fail(std::move(*fault));
  return out;
}

}  // namespace qm::autoscaler::replicas
