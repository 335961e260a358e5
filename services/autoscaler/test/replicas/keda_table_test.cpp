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

// ScaledObject | n=REPLICAS, then passes SECOND:READING (x = the source fails; seconds since its creation) | rule and
// replicas of the last pass  metric=VALUE (- = none)  failures=N in a row
//   ScaledObject  min= max= idle= cooldown= initial= (seconds) activation= fallback=THRESHOLD/REPLICAS/BEHAVIOR, and the
//                 annotations paused hold-in hold-out forced. Its trigger has the threshold 10.
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
# TestScaleToMinReplicasWhenNotActive (initialCooldownPeriod)
min=0 initial=120 | n=4 120:0 | initial_cooldown 4
min=0 initial=120 | n=4 121:0 | deactivate 0
# TestScaleToIdleReplicasWhenNotActive
min=2 idle=0 cooldown=10 | n=2 0:5 11:0 | deactivate_to_idle 0
# TestScaleFromIdleToMinReplicasWhenActive
min=5 idle=0 | n=0 0:5 | activate 5
# TestScaleToFallbackReplicasWhenNotActiveAndIsError
min=0 cooldown=10 fallback=0/6 | n=0 0:x | activate 1 metric=60
# TestScaleToMinReplicasWhenNotActive (activation threshold)
min=0 activation=5 | n=0 0:5 | inactive 0
min=0 activation=5 | n=0 0:6 | activate 1
# TestScaleToPausedReplicasCount
min=0 paused | n=3 0:50 | paused 3
# e2e pause_scale_out
min=0 hold-out | n=0 0:50 | paused_scale_out 0
# e2e pause_scale_in
min=0 cooldown=1 hold-in | n=3 0:5 9:0 | paused_scale_in 3
# e2e force_activation
min=0 forced | n=0 0:0 | forced_activation 1
# fallback should reset the health status when scaler metrics are available
min=1 fallback=3/6 | n=2 0:x 30:x 60:20 | active 2 metric=20 failures=0
# fallback should propagate the error when fallback is disabled
min=0 cooldown=1 | n=2 0:x | error_no_fallback 2 metric=-
# fallback should bump the number of failures when metrics call fails
min=1 fallback=3/6 | n=2 0:x 30:x | error_waits_for_fallback 2 metric=- failures=2
# fallback should return a normalised metric when number of failures are beyond threshold
min=1 fallback=2/7 | n=2 0:x 30:x 60:x | active 2 metric=70 failures=3
# fallback should use fallback replicas when current replicas is lower when behavior is 'currentReplicasIfHigher'
min=1 fallback=0/7/currentReplicasIfHigher | n=4 0:x | active 4 metric=70
# fallback should use current replicas when current replicas is higher when behavior is 'currentReplicasIfHigher'
min=1 fallback=0/3/currentReplicasIfHigher | n=4 0:x | active 4 metric=40
# fallback should use current replicas when current replicas is lower when behavior is 'currentReplicasIfLower'
min=1 fallback=0/7/currentReplicasIfLower | n=4 0:x | active 4 metric=40
# fallback should use current replicas when behavior is 'currentReplicas'
min=1 fallback=0/7/currentReplicas | n=4 0:x | active 4 metric=40
)";

// time zone | start | end | instant | whether the trigger is active
constexpr const char* kCronRows = R"(
# TestIsActive
Etc/UTC | 0 9 * * 1-5 | 0 17 * * 1-5 | 2026-03-11T12:00:00Z | active
Etc/UTC | 0 9 * * 1-5 | 0 17 * * 1-5 | 2026-03-11T17:00:00Z | idle
Etc/UTC | 0 9 * * 1-5 | 0 17 * * 1-5 | 2026-03-14T12:00:00Z | idle
# TestIsActive (across midnight)
Etc/UTC | 0 22 * * * | 0 6 * * * | 2026-03-11T23:30:00Z | active
Etc/UTC | 0 22 * * * | 0 6 * * * | 2026-03-11T21:59:59Z | idle
# TestIsActive (time zone)
America/New_York | 0 9 * * * | 0 17 * * * | 2026-01-12T14:00:00Z | active
America/New_York | 0 9 * * * | 0 17 * * * | 2026-07-13T21:30:00Z | idle
Asia/Kolkata | 30 9 * * * | 0 10 * * * | 2026-03-11T04:15:00Z | active
# TestIsActiveRange (active while the next end is earlier than the next start)
Etc/UTC | 0-30 * * * * | 31-59 * * * * | 2026-03-11T12:15:00Z | idle
Etc/UTC | 0-30 * * * * | 31-59 * * * * | 2026-03-11T12:45:00Z | active
)";

ScaledObject object_of(const Words& words) {
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
  return scaled_object(fields + fmt::format(R"("triggers": [{{"type": "prometheus", "name": "load", "metadata": {{
      "serverAddress": "s", "query": "q", "threshold": "10", "activationThreshold": "{}"}}}}])",
                                            words.number("activation", 0)));
}

std::string result_of(const Words& object_words, const std::string& passes, const Words& expected) {
  const ScaledObject object = object_of(object_words);
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
    const auto milli = last.metrics.at(0).second;
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
  EXPECT_GE(rows.size(), 25U);
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
  EXPECT_GE(rows.size(), 10U);
}

}  // namespace keda_table_test
}  // namespace qm::autoscaler::replicas
