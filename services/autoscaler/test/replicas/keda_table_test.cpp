// KEDA's scale loop, its fallbacks and its cron trigger as data: the name of an upstream test, and rows with inputs of our own.
#include "fixtures.hpp"
#include "qm/testing/text.hpp"

#include <fmt/ranges.h>

namespace qm::autoscaler::replicas {
namespace keda_table_test {

using namespace fixtures;
using qm::testing::split;
using qm::testing::table_rows;
using qm::testing::Words;

// KEDA v2.20.1: pkg/scaling/executor/scale_scaledobjects_test.go, pkg/fallback/fallback_test.go,
// pkg/scaling/modifiers/formula_test.go, pkg/scalers/cron_scaler_test.go,
// apis/keda/v1alpha1/scaledobject_{types,webhook}_test.go.
// ScaledObject | n=REPLICAS, then passes SECOND:READING (x = the source fails; seconds since its creation) | rule and
// replicas of the last pass  metric=VALUE (- = none)  failures=N in a row
//   ScaledObject  min= max= idle= cooldown= initial= (seconds) activation= fallback=THRESHOLD/REPLICAS/BEHAVIOR
//                 formula= target= (scalingModifiers), and the annotations paused hold-in hold-out forced. Its trigger
//                 "load" has the threshold 10.
constexpr const char* kRows = R"(
# TestScaleFromMinReplicasWhenActive
min=0 | n=0 0:5 | activate 1 metric=5
min=3 | n=0 0:5 | activate 3
# TestScaleToMinReplicasWhenNotActive
min=0 cooldown=60 | n=4 0:5 60:0 | cooldown 4
min=0 cooldown=60 | n=4 0:5 61:0 | deactivate 0
min=2 cooldown=60 | n=4 0:5 61:0 | inactive 4
# TestScaleToMinReplicasFromLowerInitialReplicaCount
min=5 | n=1 0:0 | raise_to_min 5
# initialCooldownPeriod delays the first deactivation (no upstream test)
min=0 initial=120 | n=4 120:0 | initial_cooldown 4
min=0 initial=120 | n=4 121:0 | deactivate 0
# TestScaleToIdleReplicasWhenNotActive
min=2 idle=0 cooldown=10 | n=2 0:5 11:0 | deactivate_to_idle 0
# TestScaleFromIdleToMinReplicasWhenActive
min=5 idle=0 | n=0 0:5 | activate 5
# a fallback activates when the source fails (no upstream test)
min=0 cooldown=10 fallback=0/6 | n=0 0:x | activate 1 metric=60
# the activation threshold is not the target (no upstream test)
min=0 activation=5 | n=0 0:5 | inactive 0
min=0 activation=5 | n=0 0:6 | activate 1
# TestScaleToPausedReplicasCount
min=0 paused | n=3 0:50 | paused 3
# TestNoScaleFromMinReplicasWhenActiveAndPausedScaleOutAnnotationSet
min=0 hold-out | n=0 0:50 | paused_scale_out 0
# TestNoScaleToMinReplicasWhenNotActiveAndPauseScaleInAnnotationSet
min=0 cooldown=1 hold-in | n=3 0:5 9:0 | paused_scale_in 3
# TestNoScaleToIdleReplicasWhenNotActiveAndPauseScaleInAnnotationSet
min=2 idle=0 cooldown=10 hold-in | n=2 0:5 11:0 | paused_scale_in 2
# TestNoScaleFromIdleReplicasToMinReplicasWhenActiveAndPausedScaleOutAnnotationSet
min=5 idle=0 hold-out | n=0 0:5 | paused_scale_out 0
# TestScaleFromMinReplicasWhenActivationForced
min=0 forced | n=0 0:0 | forced_activation 1
# fallback should reset the health status when scaler metrics are available when fallback is enabled
min=1 fallback=3/6 | n=2 0:x 30:x 60:20 | active 2 metric=20 failures=0
# fallback should initialise the health status on success when fallback is enabled and status is empty
min=1 fallback=4/8 | n=2 0:20 | active 2 metric=20 failures=0
# fallback should return the expected metric when fallback is disabled
min=1 | n=2 0:33 | active 2 metric=33 failures=0
# fallback should propagate the error when fallback is disabled
min=0 cooldown=1 | n=2 0:x | error_no_fallback 2 metric=-
# fallback should bump the number of failures when metrics call fails
min=1 fallback=3/6 | n=2 0:x 30:x | error_waits_for_fallback 2 metric=- failures=2
# fallback should return a normalised metric when number of failures are beyond threshold
min=1 fallback=2/7 | n=2 0:x 30:x 60:x | active 2 metric=70 failures=3
# fallback should use fallback replicas when current replicas is lower when behavior is 'currentReplicasIfHigher'
min=1 fallback=0/7/currentReplicasIfHigher | n=4 0:x | active 4 metric=70
# current replicas are used when they are higher and the behavior is 'currentReplicasIfHigher' (no upstream test)
min=1 fallback=0/3/currentReplicasIfHigher | n=4 0:x | active 4 metric=40
# current replicas are used when they are lower and the behavior is 'currentReplicasIfLower' (no upstream test)
min=1 fallback=0/7/currentReplicasIfLower | n=4 0:x | active 4 metric=40
# fallback should ignore current replicas when behavior is 'static'
min=1 fallback=0/7/static | n=9 0:x | active 9 metric=70
# fallback should use current replicas when behavior is 'currentReplicas'
min=1 fallback=0/7/currentReplicas | n=4 0:x | active 4 metric=40
# TestScalingModifierTriggerValue no fallback configured returns the metric value
min=1 formula=load??90 target=10 | n=2 0:20 | active 2 metric=20
# TestScalingModifierTriggerValue no health status for trigger returns the metric value
min=1 formula=load??90 target=10 fallback=2/7/scalingModifiers | n=2 0:20 | active 2 metric=20
# TestScalingModifierTriggerValue failures exceed threshold returns nil
min=1 formula=load??90 target=10 fallback=2/7/scalingModifiers | n=2 0:x 30:x 60:x 90:x | active 2 metric=90
# TestScalingModifierTriggerValue failures one over threshold returns nil
min=1 formula=load??90 target=10 fallback=2/7/scalingModifiers | n=2 0:x 30:x 60:x | active 2 metric=90
# TestScalingModifierTriggerValue healthy (failures reset to 0) returns the metric value
min=1 formula=load??90 target=10 fallback=0/7/scalingModifiers | n=2 0:x 30:40 | active 2 metric=40 failures=0
# TestCalculateScalingModifiersFormulaFallbackReplicas
min=1 formula=load target=5 fallback=0/6/scalingModifiers | n=2 0:x | active 2 metric=30
)";

// time zone | start | end | instant | whether the trigger is active
constexpr const char* kCronRows = R"(
# TestIsActive
Etc/UTC | 0 9 * * 1-5 | 0 17 * * 1-5 | 2026-03-11T12:00:00Z | active
Etc/UTC | 0 9 * * 1-5 | 0 17 * * 1-5 | 2026-03-11T17:00:00Z | idle
Etc/UTC | 0 9 * * 1-5 | 0 17 * * 1-5 | 2026-03-14T12:00:00Z | idle
Etc/UTC | 0 22 * * * | 0 6 * * * | 2026-03-11T23:30:00Z | active
Etc/UTC | 0 22 * * * | 0 6 * * * | 2026-03-11T21:59:59Z | idle
America/New_York | 0 9 * * * | 0 17 * * * | 2026-01-12T14:00:00Z | active
America/New_York | 0 9 * * * | 0 17 * * * | 2026-07-13T21:30:00Z | idle
Asia/Kolkata | 30 9 * * * | 0 10 * * * | 2026-03-11T04:15:00Z | active
# TestGetMetrics
Etc/UTC | 0 3 * * Tue | 30 21 * * Tue | 2026-03-10T09:00:00Z | active
Etc/UTC | 0 3 * * Tue | 30 21 * * Tue | 2026-03-11T09:00:00Z | idle
# a window ends after midnight in its time zone (no upstream test)
Europe/Berlin | 50 23 * * * | 10 0 * * * | 2026-03-11T23:05:00Z | active
Europe/Berlin | 50 23 * * * | 10 0 * * * | 2026-03-11T23:10:00Z | idle
# TestIsActiveRange
Etc/UTC | 0 */3 * * * | 0 1-22/3 * * * | 2026-03-11T09:40:00Z | active
Etc/UTC | 0 */3 * * * | 0 1-22/3 * * * | 2026-03-11T10:40:00Z | idle
# TestGetMetricsRange
Etc/UTC | 10 */4 * * * | 20 2-22/4 * * * | 2026-03-11T14:10:00Z | active
Etc/UTC | 10 */4 * * * | 20 2-22/4 * * * | 2026-03-11T14:20:00Z | idle
# the next start may be within the window (no upstream test)
Etc/UTC | 0-30 * * * * | 31-59 * * * * | 2026-03-11T12:15:00Z | idle
Etc/UTC | 0-30 * * * * | 31-59 * * * * | 2026-03-11T12:45:00Z | active
)";

// time zone | start | end | desiredReplicas | ok, or the field of the error
constexpr const char* kCronFields = R"(
# TestCronParseMetadata
Etc/UTC | 0 3 * * Tue | 30 21 * * Tue | 4 | ok
Etc/UTC | 0 */3 * * * | 0 1-22/3 * * * | 4 | ok
Etc/UTC | 5,35 * * * * | 20,50 * * * * | 4 | ok
Europe/Berlin | 10-12 * * * * | 40 * * * * | 4 | ok
Europe/Berlin | 10 * * * * | 40-44 * * * * | 4 | ok
- | - | - | - | spec.triggers[0].metadata.timezone
Europe/Berlin | 10 * * * * | 40 * * * * | - | spec.triggers[0].metadata.desiredReplicas
- | 10 * * * * | 40 * * * * | 4 | spec.triggers[0].metadata.timezone
Europe/Berlin | -10 * * * * | 40 * * * * | 4 | spec.triggers[0].metadata.start
Europe/Berlin | 10 * * * * | -40 * * * * | 4 | spec.triggers[0].metadata.end
Europe/Berlin | 10 * * * * | 40 * * -2 * | 4 | spec.triggers[0].metadata.end
Europe/Berlin | 10 * * * * | 10 * * * * | 4 | spec.triggers[0].metadata.end
)";

// fields of the ScaledObject, and types of triggers (cpu memory prometheus none) if not Prometheus alone; window=SECONDS
// (of the scale-down) unnamed (its trigger has no name) | ok, or the field of the error
constexpr const char* kObjectRows = R"(
# TestCheckReplicaCountBoundsAreValid Valid: min 1, max 5, no idle
min=3 max=9 | ok
# TestCheckReplicaCountBoundsAreValid Valid: min 1, max 5, idle 0
min=3 max=9 idle=0 | ok
# TestCheckReplicaCountBoundsAreValid Invalid: min 2 > max 1
min=9 max=3 | spec.maxReplicaCount
# TestCheckReplicaCountBoundsAreValid Invalid: idle 1 == min 1
min=4 max=9 idle=4 | spec.idleReplicaCount
# TestCheckReplicaCountBoundsAreValid Invalid: idle 2 > min 1
min=4 max=9 idle=7 | spec.idleReplicaCount
# TestCheckFallbackValid Implicit AverageValue metricType (empty string) - valid
fallback=3/6 | ok
# TestCheckFallbackValid Explicit AverageValue metricType - valid
fallback=4/5 metric=AverageValue | ok
# TestCheckFallbackValid Value metricType - valid
fallback=3/6 metric=Value | ok
# TestCheckFallbackValid No fallback configured
min=1 cpu | ok
# TestCheckFallbackValid CPU trigger - invalid
min=1 fallback=3/6 cpu | spec.fallback
# TestCheckFallbackValid Memory trigger - invalid
min=1 fallback=3/6 memory | spec.fallback
# TestCheckFallbackValid Multiple triggers with one valid AverageValue - valid
min=1 fallback=3/6 memory prometheus metric=AverageValue | ok
# TestCheckFallbackValid Using ScalingModifiers with AverageValue MetricType - valid
fallback=3/6 formula=load*3 target=10 composite=AverageValue | ok
# TestCheckFallbackValid Using ScalingModifiers with Value MetricType - valid
fallback=3/6 formula=load*3 target=10 composite=Value | ok
# a formula has a fallback without other triggers too (no upstream test)
min=1 fallback=3/6 cpu formula=9 target=10 | ok
# TestCheckFallbackValid Multiple triggers with one CPU and one valid - valid
min=1 fallback=3/6 cpu prometheus | ok
# TestCheckFallbackValid Negative FailureThreshold - invalid
fallback=-3/6 | spec.fallback.failureThreshold
# TestCheckFallbackValid Negative Replicas - invalid
fallback=3/-6 | spec.fallback.replicas
# shouldn't validate the so creation when the fallback is configured and only cpu/memory triggers are used.
min=2 fallback=3/6 cpu memory | spec.fallback
# should validate the so creation when the fallback is configured, and at least one trigger (besides cpu/memory) is configured.
min=2 fallback=3/6 cpu memory prometheus | ok
# shouldn't validate the so creation when the fallback is wrong
min=2 fallback=-4/5 | spec.fallback.failureThreshold
# shouldn't validate the so creation when the replica counts are wrong
min=30 max=20 | spec.maxReplicaCount
# should validate so creation when all requirements are met for scaling to zero with cpu scaler
min=0 cpu prometheus | ok
# shouldn't validate so creation with cpu scaler requirements not being met for scaling to 0
min=0 cpu | spec.minReplicaCount
# should validate so creation when min replicas is > 0 with only cpu scaler given
min=2 cpu | ok
# shouldn't create so when stabilizationWindowSeconds exceeds 3600
window=3601 | spec.advanced.horizontalPodAutoscalerConfig.behavior.scaleDown.stabilizationWindowSeconds
window=3600 | ok
# should validate empty triggers in ScaledObject
min=1 none | spec.triggers
# should validate the so creation with ScalingModifiers.Formula
formula=load+7 target=10 | ok
# shouldnt validate the so creation with scalingModifiers.Formula but no target
formula=load+7 | spec.advanced.scalingModifiers.target
# shouldnt validate the so creation with ScalingModifiers when triggers dont have names
formula=load+7 target=10 unnamed | spec.advanced.scalingModifiers.formula
# should validate the so creation with ScalingModifiers when formula triggers do have names but not all triggers
formula=load+7 target=10 cpu prometheus | ok
# should validate the so creation with ScalingModifiers when formula casts to float already
formula=float(load+7) target=10 | ok
# should validate the so creation with ScalingModifiers.Formula - casting float from ternary operator
formula=float(load<9?load*2:7) target=10 | ok
# should validate the so creation with ScalingModifiers.Formula - ternary operator without casting float
formula=load<9?load*2:7 target=10 | ok
# should validate the so creation with ScalingModifiers.Formula - count operator
formula=count([load,load*2],{#>3})>1?8:1 target=10 | ok
# should validate the so creation with ScalingModifiers.Formula - complex ternary
formula=float(load<9?load>3?6:7:1) target=10 | ok
# should validate the so creation with ScalingModifiers.Formula - double float cast
formula=float(float(load<9?load*2:7)) target=10 | ok
# should validate the so creation with scalingModifiers fallback behavior
formula=load??7 target=10 fallback=3/6/scalingModifiers | ok
# shouldn't validate the so creation with scalingModifiers fallback without formula
fallback=3/6/scalingModifiers | spec.fallback
)";

// paused=VALUE paused-replicas=VALUE (annotations) | whether it is paused, and with how many replicas
constexpr const char* kAnnotationRows = R"(
# TestNeedToBePausedByAnnotation No annotations
- | runs -
# TestNeedToBePausedByAnnotation PausedReplicasAnnotation with value but no status set
paused-replicas=8 | paused 8
# TestNeedToBePausedByAnnotation Both annotations set
paused=true paused-replicas=9 | paused 9
# TestNeedToBePausedByAnnotation PausedAnnotation with true value
paused=true | paused -
# TestNeedToBePausedByAnnotation PausedAnnotation with false value
paused=false | runs -
# TestNeedToBePausedByAnnotation PausedAnnotation with invalid value
paused=yes-please | paused -
# TestNeedToBePausedByAnnotation Both annotations set, PausedAnnotation false
paused=false paused-replicas=6 | paused 6
# TestGetPausedReplicaCount annotation absent returns nil
- | runs -
# TestGetPausedReplicaCount valid integer annotation returns pointer to value
paused-replicas=12 | paused 12
# TestGetPausedReplicaCount zero value annotation returns pointer to zero
paused-replicas=0 | paused 0
# TestGetPausedReplicaCount invalid string annotation returns error
paused-replicas=many | refused
)";

Result<ScaledObject> read_object(const Words& words) {
  std::string fields;
  const auto add = [&](const char* word, const char* field) {
    if (const auto value = words.get(word); !value.empty()) fields += fmt::format(R"("{}": {}, )", field, value);
  };
  add("min", "minReplicaCount");
  add("max", "maxReplicaCount");
  add("idle", "idleReplicaCount");
  add("cooldown", "cooldownPeriod");
  add("initial", "initialCooldownPeriod");
  if (const auto parts = split(words.get("fallback"), '/'); !parts.empty()) {
    fields += fmt::format(R"("fallback": {{"failureThreshold": {}, "replicas": {}{}}}, )", parts.at(0), parts.at(1),
                          parts.size() > 2 ? fmt::format(R"(, "behavior": "{}")", parts[2]) : "");
  }
  std::vector<std::string> advanced, triggers;
  if (const auto window = words.get("window"); !window.empty()) {
    advanced.push_back(fmt::format(
        R"("horizontalPodAutoscalerConfig": {{"behavior": {{"scaleDown": {{"stabilizationWindowSeconds": {}}}}}}})",
        window));
  }
  if (const auto formula = words.get("formula"); !formula.empty()) {
    const auto target = words.get("target");
    advanced.push_back(fmt::format(R"("scalingModifiers": {{"formula": "{}"{}, "metricType": "{}"}})", formula,
                                   target.empty() ? "" : fmt::format(R"(, "target": "{}")", target),
                                   words.get("composite", "AverageValue")));
  }
  if (!advanced.empty()) fields += fmt::format(R"("advanced": {{{}}}, )", fmt::join(advanced, ", "));
  for (const char* resource : {"cpu", "memory"}) {
    if (!words.has(resource)) continue;
    triggers.push_back(
        fmt::format(R"({{"type": "{}", "metricType": "Utilization", "metadata": {{"value": "50"}}}})", resource));
  }
  if ((triggers.empty() && !words.has("none")) || words.has("prometheus"))
    triggers.push_back(fmt::format(R"({{"type": "prometheus", {}"metricType": "{}", "metadata": {{
      "serverAddress": "s", "query": "q", "threshold": "10", "activationThreshold": "{}"}}}})",
                                   words.has("unnamed") ? "" : R"("name": "load", )",
                                   words.get("metric", "AverageValue"), words.number("activation", 0)));
  return read_scaled_object(
      *Json::parse(fmt::format(R"({{"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {{}},
    "spec": {{"scaleTargetRef": {{"name": "web"}}, {}"triggers": [{}]}}}})",
                               fields, fmt::join(triggers, ", "))));
}

std::string result_of(const Words& object_words, const std::string& passes, const Words& expected) {
  const ScaledObject object = read_object(object_words).value();
  ScalingAnnotations annotations;
  annotations.paused = object_words.has("paused");
  annotations.pause_scale_in = object_words.has("hold-in");
  annotations.pause_scale_out = object_words.has("hold-out");
  annotations.force_activation = object_words.has("forced");
  ScaledObjectState state;
  state.created = at(0);
  auto replicas = static_cast<std::int32_t>(Words(passes).number("n", 0));
  LoopDecision last;
  for (const auto& pass : split(passes, ' ')) {
    const auto colon = pass.find(':');
    if (colon == std::string::npos) continue;
    const auto second = std::stol(pass.substr(0, colon));
    const std::string value = pass.substr(colon + 1);
    TriggerObservation now;
    now.now = at(second);
    now.replicas = now.status_replicas = replicas;
    now.pods = seen(second, replicas).pods;
    if (value == "x") {
      now.readings["load"] = FailedReading{"connection refused"};
    } else {
      now.readings["load"] = QueryReading{1, std::stod(value)};
    }
    last = poll(object, annotations, now, state);
    replicas = last.replicas;
  }
  std::string out = fmt::format("{} {}", name_of(last.rule), last.replicas);
  if (expected.named.contains("metric")) {
    const auto milli = last.metrics.back().second;
    out += fmt::format(" metric={}", milli ? std::to_string(*milli / 1000) : "-");
  }
  if (expected.named.contains("failures")) out += fmt::format(" failures={}", state.failures["load"]);
  return out;
}

TEST(Keda, RowsHold) {
  const auto rows = table_rows(kRows);
  for (const auto& [row, cells] : rows) {
    ASSERT_EQ(cells.size(), 3U) << row;
    EXPECT_EQ(result_of(Words(cells[0]), cells[1], Words(cells[2])), cells[2]) << row;
  }
  EXPECT_GE(rows.size(), 36U);
}

TEST(Keda, CronRowsHold) {
  const auto rows = table_rows(kCronRows);
  for (const auto& [row, cells] : rows) {
    ASSERT_EQ(cells.size(), 5U) << row;
    const auto object = scaled_object(fmt::format(
        R"("triggers": [{{"type": "cron", "name": "t", "metadata": {{
        "timezone": "{}", "start": "{}", "end": "{}", "desiredReplicas": "7"}}}}])",
        cells[0], cells[1], cells[2]));
    PreviousOffsets none;
    const auto out = measure(object.triggers.front(), nullptr, *from_rfc3339(cells[3]), none);
    ASSERT_TRUE(out) << row;
    EXPECT_EQ(out->active ? "active" : "idle", cells[4]) << row;
    EXPECT_EQ(out->milli, out->active ? 7000 : 0) << row;
  }
  EXPECT_GE(rows.size(), 18U);
}

TEST(Keda, FieldsOfCronTriggersHold) {
  const auto rows = table_rows(kCronFields);
  for (const auto& [row, cells] : rows) {
    ASSERT_EQ(cells.size(), 5U) << row;
    Json metadata = Json::object();
    std::size_t cell = 0;
    for (const char* field : {"timezone", "start", "end", "desiredReplicas"}) {
      if (cells[cell] != "-") metadata.set(field, cells[cell]);
      ++cell;
    }
    const auto read = read_scaled_object(*Json::parse(fmt::format(
        R"({{"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {{}}, "spec": {{
        "scaleTargetRef": {{"name": "web"}}, "triggers": [{{"type": "cron", "metadata": {}}}]}}}})",
        metadata.dump())));
    EXPECT_EQ(read ? "ok" : read.error().field, cells[4]) << row;
  }
  EXPECT_EQ(rows.size(), 12U);
}

TEST(Keda, RowsOfObjectsHold) {
  const auto rows = table_rows(kObjectRows);
  for (const auto& [row, cells] : rows) {
    ASSERT_EQ(cells.size(), 2U) << row;
    const auto read = read_object(Words(cells[0]));
    EXPECT_EQ(read ? "ok" : read.error().field, cells[1]) << row;
  }
  EXPECT_EQ(rows.size(), 40U);
}

TEST(Keda, RowsOfAnnotationsHold) {
  const auto rows = table_rows(kAnnotationRows);
  for (const auto& [row, cells] : rows) {
    ASSERT_EQ(cells.size(), 2U) << row;
    Json annotations = Json::object();
    for (const auto& [key, value] : Words(cells[0]).named) annotations.set("autoscaling.keda.sh/" + key, value);
    const auto read = read_annotations(annotations);
    std::string text = "refused";
    if (read) {
      const auto& replicas = read->paused_replicas;
      text = fmt::format("{} {}", read->paused ? "paused" : "runs", replicas ? std::to_string(*replicas) : "-");
    }
    EXPECT_EQ(text, cells[1]) << row;
  }
  EXPECT_EQ(rows.size(), 11U);
}

}  // namespace keda_table_test
}  // namespace qm::autoscaler::replicas
