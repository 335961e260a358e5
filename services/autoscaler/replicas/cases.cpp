#include "cases.hpp"

#include "qm/autoscaler/replicas/keda.hpp"
#include "qm/autoscaler/replicas/manifests.hpp"
#include "qm/base/parse.hpp"
#include "qm/model/quantity.hpp"

#include <algorithm>
#include <charconv>

namespace qm::autoscaler::replicas {
namespace {

constexpr std::int64_t kMostPods = 1'000'000;
constexpr std::chrono::seconds kLongAgo(-3600);  // start of a pod, unless it has one

Result<std::int64_t> milli_of(const Json& value) {
  QM_ASSIGN(const auto quantity, Quantity::parse(value.is_string() ? value.string() : value.dump()));
  return quantity.milli();
}

/// The clock of a case: whole seconds since its start.
struct CaseClock {
  Instant start{};
  [[nodiscard]] Instant at(const Json& t) const {
    constexpr std::int64_t kMost = 100'000'000'000;  // so that microseconds fit
    return start + std::chrono::seconds(std::clamp(t.integer(), -kMost, kMost));
  }
};

Result<Amounts> amounts_of(const Json& json) {
  Amounts out;
  for (const auto& [name, value] : json.members()) {
    QM_ASSIGN(out[name], milli_of(value));
  }
  return out;
}

Result<std::map<std::string, Amounts>> containers_of(const Json& json) {
  std::map<std::string, Amounts> out;
  for (const auto& [name, value] : json.members()) {
    QM_ASSIGN(out[name], amounts_of(value));
  }
  return out;
}

/// What pods have unless they say otherwise.
struct PodTemplate {
  std::map<std::string, Amounts> containers, sidecars;
  Amounts pod_requests;

  static Result<PodTemplate> read(const Json& json) {
    PodTemplate out;
    QM_ASSIGN(out.containers, containers_of(json["containers"]));
    QM_ASSIGN(out.sidecars, containers_of(json["sidecars"]));
    QM_ASSIGN(out.pod_requests, amounts_of(json["podRequests"]));
    return out;
  }
};

Pod default_pod(std::size_t index, const PodTemplate& defaults, const CaseClock& clock) {
  Pod out;
  out.name = fmt::format("p{}", index);
  out.ready_since = clock.start + kLongAgo;
  out.start = out.ready_since;
  out.containers = defaults.containers;
  out.sidecars = defaults.sidecars;
  out.pod_requests = defaults.pod_requests;
  return out;
}

Result<Pod> pod_of(const Json& json, std::size_t index, const PodTemplate& defaults, const CaseClock& clock) {
  Pod out = default_pod(index, defaults, clock);
  out.name = json["name"].string();
  const auto phase = json["phase"].string_or("Running");
  out.phase = phase == "Pending"     ? Pod::Phase::kPending
              : phase == "Failed"    ? Pod::Phase::kFailed
              : phase == "Succeeded" ? Pod::Phase::kSucceeded
                                     : Pod::Phase::kRunning;
  if (const auto* ready = json.find("ready")) {
    out.ready = ready->is_bool() ? std::optional(ready->boolean()) : std::nullopt;
  }
  if (json.contains("readySince")) out.ready_since = clock.at(json["readySince"]);
  if (const auto* start = json.find("start")) {
    out.start = start->is_null() ? std::nullopt : std::optional(clock.at(*start));
  }
  const auto& deleted = json["deleted"];
  out.deleted = !deleted.is_null() && (!deleted.is_bool() || deleted.boolean());
  if (json.contains("containers")) {
    QM_ASSIGN(out.containers, containers_of(json["containers"]));
  }
  if (json.contains("sidecars")) {
    QM_ASSIGN(out.sidecars, containers_of(json["sidecars"]));
  }
  if (json.contains("podRequests")) {
    QM_ASSIGN(out.pod_requests, amounts_of(json["podRequests"]));
  }
  return out;
}

Result<std::vector<Pod>> pods_of(const Json& json, std::int64_t otherwise, const PodTemplate& defaults,
                                 const CaseClock& clock) {
  std::vector<Pod> out;
  if (json.is_array()) {
    for (const auto& pod : json.items()) {
      QM_ASSIGN(auto one, pod_of(pod, out.size(), defaults, clock));
      out.push_back(std::move(one));
    }
    return out;
  }
  const auto count = json.integer(otherwise);
  if (count > kMostPods) return fail(Code::kInvalid, "{} pods are more than {}", count, kMostPods);
  while (static_cast<std::int64_t>(out.size()) < count) out.push_back(default_pod(out.size(), defaults, clock));
  return out;
}

Result<std::optional<std::vector<ResourceSample>>> resource_of(const Json& json, Instant now, const CaseClock& clock) {
  if (!json.is_array()) return std::optional<std::vector<ResourceSample>>();
  std::vector<ResourceSample> out;
  for (const auto& sample : json.items()) {
    ResourceSample one;
    one.pod = sample["pod"].string();
    one.at = sample.contains("t") ? clock.at(sample["t"]) : now;
    one.window = std::chrono::seconds(sample["window"].integer(60));
    QM_ASSIGN(one.usage, containers_of(sample["usage"]));
    out.push_back(std::move(one));
  }
  return std::optional(std::move(out));
}

Result<Readings> readings_of(const Json& json, Instant now, const CaseClock& clock) {
  Readings out;
  QM_ASSIGN(out.resource, resource_of(json["resource"], now, clock));
  for (const auto& [metric, values] : json["pods"].members()) {
    if (!values.is_array()) continue;
    auto& list = out.pods[metric];
    for (const auto& value : values.items()) {
      QM_ASSIGN(const auto milli, milli_of(value["value"]));
      list.push_back({value["pod"].string(), milli});
    }
  }
  for (const auto& [metric, value] : json["object"].members()) {
    if (value.is_null() || value.string() == "error") continue;
    QM_ASSIGN(out.object[metric], milli_of(value));
  }
  for (const auto& [metric, values] : json["external"].members()) {
    if (!values.is_array()) continue;
    auto& list = out.external[metric];
    for (const auto& value : values.items()) {
      QM_ASSIGN(const auto milli, milli_of(value));
      list.push_back(milli);
    }
  }
  return out;
}

ControllerOptions options_of(const Json& json) {
  ControllerOptions out;
  const auto seconds_of = [&](const char* name, Duration& value) {
    if (json.contains(name)) value = std::chrono::seconds(json[name].integer());
  };
  out.tolerance = json["tolerance"].number(out.tolerance);
  seconds_of("cpuInitializationPeriodSeconds", out.cpu_initialization);
  seconds_of("initialReadinessDelaySeconds", out.initial_readiness);
  seconds_of("downscaleStabilizationSeconds", out.downscale_stabilization);
  const auto& gates = json["featureGates"];
  out.scale_to_zero = gates["HPAScaleToZero"].boolean(out.scale_to_zero);
  out.configurable_tolerance = gates["HPAConfigurableTolerance"].boolean(out.configurable_tolerance);
  return out;
}

HpaState history_of(const Json& json, const CaseClock& clock) {
  HpaState out;
  const auto count = [](const Json& pair) { return static_cast<std::int32_t>(pair.at(1).integer()); };
  if (json.contains("recommendations")) {
    out.recommendations.emplace();
    for (const auto& pair : json["recommendations"].items()) {
      out.recommendations->push_back({clock.at(pair.at(0)), count(pair)});
    }
  }
  for (const auto& pair : json["scaleUpEvents"].items()) out.ups.push_back({clock.at(pair.at(0)), count(pair)});
  for (const auto& pair : json["scaleDownEvents"].items()) out.downs.push_back({clock.at(pair.at(0)), count(pair)});
  return out;
}

Json proposals_of(const HpaDecision& decision) {
  if (!decision.proposals) return {};
  auto out = Json::array();
  for (const auto& proposal : *decision.proposals) out.push_back(proposal ? Json(*proposal) : Json());
  return out;
}

std::int32_t replicas_of(const Json& json) { return static_cast<std::int32_t>(json.integer()); }

Result<Json> run_hpa(const Json& recorded) {
  const CaseClock clock;
  auto object = recorded["object"];
  const auto options = options_of(recorded["controller"]);
  QM_ASSIGN(const auto defaults, PodTemplate::read(recorded["podTemplate"]));
  auto state = history_of(recorded["history"], clock);
  QM_ASSIGN(auto manifest, read_hpa(object));
  state.conditions = manifest.conditions;
  auto ticks = Json::array();
  for (const auto& tick : recorded["ticks"].items()) {
    if (tick["spec"].size() > 0) {
      for (const auto& [field, value] : tick["spec"].members()) object.set("spec").set(field, value);
      QM_ASSIGN(manifest, read_hpa(object));
    }
    Observation seen;
    seen.now = clock.at(tick["t"]);
    seen.replicas = replicas_of(tick["replicas"]);
    seen.status_replicas = static_cast<std::int32_t>(tick["statusReplicas"].integer(seen.replicas));
    QM_ASSIGN(seen.pods, pods_of(tick["pods"], seen.replicas, defaults, clock));
    QM_ASSIGN(seen.readings, readings_of(tick["metrics"], seen.now, clock));
    const auto decision = sync(manifest.spec, options, seen, state);
    auto conditions = Json::object();
    for (const auto& [type, condition] : state.conditions) conditions.set(type, condition.reason);
    ticks.push_back(Json::object({{"desired", decision.desired},
                                  {"rule", name_of(decision.rule)},
                                  {"proposals", proposals_of(decision)},
                                  {"conditions", std::move(conditions)}}));
  }
  return ticks;
}

// ---- ScaledObjects ----

Result<Reading> reading_of(const Json& json) {
  if (json.contains("error")) return FailedReading{json["error"].string()};
  if (json.contains("partitions")) {
    TopicReading out;
    for (const auto& [id, offsets] : json["partitions"].members()) {
      const auto number = whole_number<std::int32_t>(id);
      if (!number) return fail(Code::kInvalid, "\"{}\" is not the number of a partition", id);
      out[*number] = {offsets["latest"].integer(), offsets["committed"].integer()};
    }
    return out;
  }
  if (json.contains("ApproximateNumberOfMessages")) {
    return QueueReading{json["ApproximateNumberOfMessages"].integer(),
                        json["ApproximateNumberOfMessagesNotVisible"].integer(),
                        json["ApproximateNumberOfMessagesDelayed"].integer()};
  }
  if (json.contains("result")) {
    const auto& result = json["result"].string();
    if (result != "empty" && result != "multiple") return fail(Code::kInvalid, "the result \"{}\" is unknown", result);
    return QueryReading{result == "empty" ? 0U : 2U, 0};
  }
  const auto& value = json["value"];
  if (value.is_number()) return QueryReading{1, value.number()};
  double number = 0;
  auto text = std::string_view(value.string());
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return FailedReading{fmt::format("\"{}\" is not a number", text)};
  }
  return QueryReading{1, number};
}

Json metrics_of(const TriggerMetrics& metrics) {
  auto out = Json::object();
  for (const auto& [name, milli] : metrics) out.set(name, milli ? Json(*milli) : Json());
  return out;
}

Json run_loop(const ScaledObject& object, const ScalingAnnotations& annotations, const TriggerObservation& seen,
              ScaledObjectState& state) {
  const auto decision = poll(object, annotations, seen, state);
  auto out = Json::object({{"replicas", decision.replicas}, {"rule", name_of(decision.rule)}});
  if (decision.rule == LoopRule::kPaused) return out;
  out.set("active", decision.active).set("error", decision.error).set("metrics", metrics_of(decision.metrics));
  return out;
}

Json run_autoscaler(const ScaledObject& object, const ScalingAnnotations& annotations, const ControllerOptions& options,
                    const TriggerObservation& seen, ScaledObjectState& state) {
  if (annotations.paused) return Json::object({{"replicas", seen.replicas}, {"rule", "no_hpa"}});
  const auto decision = sync(object, annotations, options, seen, state);
  auto out = Json::object({{"replicas", decision.hpa.desired}, {"rule", name_of(decision.hpa.rule)}});
  if (!decision.metrics.empty()) out.set("metrics", metrics_of(decision.metrics));
  if (decision.hpa.proposals) out.set("proposals", proposals_of(decision.hpa));
  return out;
}

Result<Json> run_scaled_object(const Json& recorded) {
  QM_ASSIGN(const auto start, from_rfc3339(recorded["start"].string()));
  const CaseClock clock{start};
  const auto options = options_of(recorded["controller"]);
  QM_ASSIGN(const auto defaults, PodTemplate::read(recorded["podTemplate"]));
  QM_ASSIGN(const auto object, read_scaled_object(recorded["object"]));
  QM_ASSIGN(auto annotations, read_annotations(recorded.path("object.metadata.annotations")));
  ScaledObjectState state;
  state.created = clock.at(recorded["created"]);
  if (recorded["lastActive"].is_int()) state.last_active = clock.at(recorded["lastActive"]);
  TriggerObservation seen;
  auto ticks = Json::array();
  for (const auto& tick : recorded["ticks"].items()) {
    seen.now = clock.at(tick["t"]);
    seen.replicas = replicas_of(tick["replicas"]);
    if (tick.contains("annotations")) {
      QM_ASSIGN(annotations, read_annotations(tick["annotations"]));
      seen.replicas = reconcile(annotations, seen.replicas, state);
    }
    for (const auto& [trigger, json] : tick["observe"].members()) {
      QM_ASSIGN(seen.readings[trigger], reading_of(json));
    }
    seen.status_replicas = static_cast<std::int32_t>(tick["statusReplicas"].integer(seen.replicas));
    QM_ASSIGN(seen.pods, pods_of(tick["pods"], seen.replicas, defaults, clock));
    QM_ASSIGN(seen.resource, resource_of(tick["resource"], seen.now, clock));
    ticks.push_back(tick["actor"].string() == "keda" ? run_loop(object, annotations, seen, state)
                                                     : run_autoscaler(object, annotations, options, seen, state));
  }
  return ticks;
}

}  // namespace

Result<Json> run_case(const Json& recorded) {
  const bool hpa = recorded.path("object.kind").string() == "HorizontalPodAutoscaler";
  QM_ASSIGN(auto ticks, hpa ? run_hpa(recorded) : run_scaled_object(recorded));
  return Json::object({{"name", recorded["name"]}, {"ticks", std::move(ticks)}});
}

}  // namespace qm::autoscaler::replicas
